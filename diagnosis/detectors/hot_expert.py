"""hot_expert: an expert is given far more tokens than the others, for many steps.

Its load / mean - 1 is above 1 and the noise that a fair router of as many experts and tokens
shows, in 20 steps in a row. Experts that became hot together are one finding. Layers whose router
has collapsed are left to router_collapse. What it costs is how much longer the ranks that hold it
compute experts than the others of their EP groups, which wait for them.

Source: MaxVio is that of 2408.15664; no thresholds are published: ours. Assumes: every token counts
once (TP peers that routed the same tokens are known by the layout). Known false positives: data of
one topic for 20 steps. Blind spots: routers that are uneven since the first 20 steps and less so
with each step, for up to 200 steps; experts that share a surplus; routers that leave out choices
because experts are full, which is said. Cost: one pass over the loads.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.experts.findings import (
    MOST_EVIDENCE,
    expert_view,
    extent_of,
    in_layers,
    load_params,
    named_experts,
    num_layers,
    settled_text,
    severity_of,
    together,
    too_many_dropped,
)
from diagnosis.experts.holders import Holders, cost_of_holders, named_holders
from diagnosis.experts.load import layers_of
from diagnosis.experts.stretches import (
    CONSECUTIVE,
    Uneven,
    hot_experts,
    hot_level,
)
from diagnosis.findings import Evidence, Finding, NotEnoughData, Place, Verdict
from diagnosis.statistics.units import when_text

NAME = "hot_expert"
KINDS = ("hot_expert",)
QUESTIONS = ("expert_load", "expert_places", "expert_times")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where no router was recorded that has a choice."""
    layers = [load for load in layers_of(tables["expert_load"]) if hot_level(load) > 0]
    if not layers:
        return None
    judged = [load for load in layers if load.step_S.size >= CONSECUTIVE]
    if not judged:
        reason = f"Loads of experts were recorded in fewer than {CONSECUTIVE} steps."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for load in judged:
        hot, settling = hot_experts(load)
        found += hot
        settled += settling
    findings = tuple(_finding(group, tables, attempt) for group in together(found, CONSECUTIVE))
    full, sound = too_many_dropped(NAME, judged, found)
    other = "other " if findings else ""
    checked = None
    if sound:
        checked = (
            f"No {other}expert of {num_layers(sound)} has far more tokens than the mean for "
            f"{CONSECUTIVE} steps."
        )
    aside = (settled_text(settled),) if settled else ()
    return Verdict(NAME, findings, checked, full, aside)


def _finding(group: list[Uneven], tables: Mapping[str, pa.Table], attempt: int) -> Finding:
    first, last, ongoing = extent_of(group)
    worst = max(group, key=lambda one: one.level)
    holders = Holders(tables["expert_places"])
    ranks = sorted({rank for one in group for rank in holders.ranks(one.load, one.expert)})
    cost = cost_of_holders(tables["expert_times"], ranks) if ongoing and ranks else None
    who, is_one = named_experts(group), len({one.expert for one in group}) == 1
    layers = {one.where: one.load for one in group}
    hold = "it lies" if is_one else "they lie"
    where = f" ({hold} on {named_holders(ranks)})" if ranks else ""
    takes = "takes" if is_one else "take"
    more = f" in {in_layers(layers.values())}" if len(layers) > 1 else ""
    up_to = "up to " if len(group) > 1 else ""
    share = (1 + worst.level) / worst.load.experts
    return Finding(
        kind="hot_expert",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=True),
        confidence="high",
        title=f"{who} {'is' if is_one else 'are'} given too many tokens",
        text=f"In the median step {who[0].lower()}{who[1:]}{where} {takes}{more} {up_to}"
        f"{1 + worst.level:.1f} times the mean load, {when_text(first, last, ongoing)}.",
        culprits=tuple(map(Place, ranks)),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        cost=cost,
        evidence=tuple(
            _evidence(one, attempt)
            for one in sorted(group, key=lambda one: -one.level)[:MOST_EVIDENCE]
        ),
        alternatives=("Data of one topic since that step: compare its sources with those before.",),
        next_step="Look at the loss-free bias or the weight of the load-balancing loss of this "
        "layer, and at its router's weights around that step; with a capacity factor, at the "
        "tokens that are dropped.",
        cause=f"In the median step the router sends {share:.0%} of its choices to 1 of "
        f"{worst.load.experts} experts.",
    )


def _evidence(one: Uneven, attempt: int) -> Evidence:
    return Evidence(
        f"In the median step expert {one.expert} of {one.where} had {1 + one.level:.2f} "
        f"times the mean load of {one.load.experts} experts.",
        round(1 + one.level, 4),
        "x",
        "expert_load",
        load_params(one, attempt),
        expert_view(one, attempt),
    )

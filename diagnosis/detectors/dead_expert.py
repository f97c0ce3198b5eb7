"""dead_expert: an expert is given next to no tokens, for a hundred steps.

Its tokens over 100 steps are below 5 % of the mean. It is dead from the step on in which its load
fell below that, until it has more again. All dead experts are one finding. Only layers in which a
fair router would give every expert three times as much are judged. Layers whose router has
collapsed are left to router_collapse.

Source: no thresholds are published: ours. Known false positives: experts that are switched off on
purpose. Blind spots: experts that get few tokens of one kind and are needed for these; runs of
which fewer than 100 steps are examined (those of more than some ten thousand ranks). Cost: one pass
over the loads.
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
    num_experts,
    num_layers,
    severity_of,
    spans_of,
    when_of,
)
from diagnosis.experts.holders import Holders, named_holders
from diagnosis.experts.load import LayerLoad, layers_of
from diagnosis.experts.stretches import (
    DEAD,
    DEAD_STEPS,
    Uneven,
    apart_from,
    are_enough_tokens,
    collapses,
    dead_experts,
)
from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict

NAME = "dead_expert"
KINDS = ("dead_expert",)
QUESTIONS = ("expert_load", "expert_places")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where no router was recorded."""
    layers = layers_of(tables["expert_load"])
    if not layers:
        return None
    long = [load for load in layers if load.step_S.size >= DEAD_STEPS]
    judged = [load for load in long if are_enough_tokens(load)]
    if not judged:
        reason = f"Loads of experts were recorded in fewer than {DEAD_STEPS} steps."
        if long:
            reason = "Experts have so few tokens that a dead one does not stand out."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    found = [one for load in judged for one in _dead(load)]
    if found:
        return Verdict(NAME, (_finding(found, tables, attempt),))
    checked = (
        f"All experts of {num_layers(judged)} had {DEAD:.0%} of the mean load or more in "
        f"{DEAD_STEPS} steps."
    )
    return Verdict(NAME, checked=checked)


def _dead(load: LayerLoad) -> list[Uneven]:
    return apart_from(dead_experts(load), [one for part in collapses(load) for one in part])


def _finding(found: list[Uneven], tables: Mapping[str, pa.Table], attempt: int) -> Finding:
    first, last, ongoing = extent_of(found)
    holders = Holders(tables["expert_places"])
    ranks = {rank for one in found for rank in holders.ranks(one.load, one.expert)}
    who, is_one = named_experts(found), len({one.expert for one in found}) == 1
    layers = {one.load.key: one.load for one in found}
    hold = "it lies" if is_one else "they lie"
    where = f" ({hold} on {named_holders(ranks)})" if ranks else ""
    more = f" in {in_layers(layers.values())}" if len(layers) > 1 else ""
    experts = sum(load.experts for load in layers.values())
    spans = spans_of(found)
    worst = min(found, key=lambda one: one.level)
    return Finding(
        kind="dead_expert",
        attempt=attempt,
        severity=severity_of(ongoing),
        confidence="high",
        title=f"{who} {'is' if is_one else 'are'} given no tokens",
        text=f"{who}{where} {'has' if is_one else 'have'}{more} {worst.level:.1%} of the mean load "
        f"or little more, {when_of(found)}.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=tuple(
            _evidence(one, attempt)
            for one in sorted(found, key=lambda one: one.level)[:MOST_EVIDENCE]
        ),
        alternatives=("Experts that are switched off on purpose, pruned or not in use yet.",),
        next_step="Look at the router's weights and bias for these experts around that step, and "
        "whether their own weights still change: without tokens there are no "
        "gradients that bring them back. A larger load-balancing loss or bias step does.",
        cause=f"The router no longer chooses {num_experts(found)} of {experts} experts.",
        episodes=spans if len(spans) > 1 else (),
    )


def _evidence(one: Uneven, attempt: int) -> Evidence:
    return Evidence(
        f"Expert {one.expert} of {one.where} had {one.level:.2%} of the mean load of "
        f"{one.load.experts} experts in {one.stretch.last - one.stretch.first + 1} steps.",
        round(100 * one.level, 4),
        "%",
        "expert_load",
        load_params(one, attempt),
        expert_view(one, attempt),
    )

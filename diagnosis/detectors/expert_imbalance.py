"""expert_imbalance: one EP rank is given more tokens than the others, and they wait for it.

The tokens of the experts on one EP rank are above 1.2 times the mean of the EP ranks, and the noise
that fair routers show, in 20 steps in a row. It is a finding only while it goes on, where the ranks
that hold these experts were seen to compute them longer, by half of what the tokens let expect or
more, and where that costs 1 % of a step. Layers with a hot expert or a collapsed router are left to
these.

Source: no thresholds are published: ours. Assumes: experts of each rank are consecutive numbers.
Known false positives: slow ranks that also have more tokens. Blind spots: layers whose surplus is
on different ranks, which cancel out in the sum over layers by which ranks are compared. Cost: one
pass over the loads, and spans of the newest 20 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.experts.findings import (
    MOST_EVIDENCE,
    expert_view,
    experts_view,
    extent_of,
    in_layers,
    load_params,
    num_layers,
    settled_text,
    severity_of,
    together,
    too_many_dropped,
)
from diagnosis.experts.holders import Holders, cost_of_holders, named_holders, relative_times
from diagnosis.experts.load import LayerLoad, layers_of
from diagnosis.experts.stretches import (
    CONSECUTIVE,
    Uneven,
    apart_from,
    collapses,
    full_ep_ranks,
    hot_experts,
)
from diagnosis.findings import Evidence, Finding, NotEnoughData, Place, Verdict
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.units import in_ms, when_text

NAME = "expert_imbalance"
KINDS = ("expert_imbalance",)
QUESTIONS = ("expert_load", "expert_places", "expert_times")

LONGER = 0.5
"""Of the surplus of tokens; small batches of experts take longer than their tokens let expect."""

LEAST_COST = 0.01
"""Of a step."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where experts are not divided among ranks."""
    holders = Holders(tables["expert_places"])
    layers = [load for load in layers_of(tables["expert_load"]) if holders.ep_ranks(load)]
    if not layers:
        return None
    judged = [load for load in layers if load.step_S.size >= CONSECUTIVE]
    if not judged:
        reason = f"Loads of experts were recorded in fewer than {CONSECUTIVE} steps."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for load in judged:
        full, settling = _full(load, holders)
        found += full
        settled += settling
    findings: list[Finding] = []
    aside = [settled_text(settled)] if settled else []
    for group in together(found, CONSECUTIVE):
        judgement = _judged(group, holders, tables, attempt)
        if isinstance(judgement, Finding):
            findings.append(judgement)
        else:
            aside.append(judgement)
    dropping, sound = too_many_dropped(NAME, judged, found)
    checked = None
    if sound:
        checked = (
            f"No {'other ' if findings else ''}EP rank has so many more tokens in any of "
            f"{num_layers(sound)} that the others wait for it."
        )
    return Verdict(NAME, tuple(findings), checked, dropping, tuple(aside))


def _full(load: LayerLoad, holders: Holders) -> tuple[list[Uneven], list[Uneven]]:
    parts = [
        (row["first_expert"], row["local_experts"])
        for row in holders.ep_ranks(load)
        if row["first_expert"] + row["local_experts"] <= load.experts
    ]
    found, settled = full_ep_ranks(load, parts)
    explained = [one for part in collapses(load) for one in part] + hot_experts(load)[0]
    return apart_from(found, explained), apart_from(settled, explained)


def _judged(
    group: list[Uneven], holders: Holders, tables: Mapping[str, pa.Table], attempt: int
) -> Finding | str:
    """A finding, or why it is none."""
    times = tables["expert_times"]
    worst = max(group, key=lambda one: one.level)
    surplus = _surplus(group, holders)
    ranks = sorted(surplus)
    up_to = "up to " if len(group) > 1 else ""
    what = (
        f"In the median step experts of {named_holders(ranks)} have {up_to}{worst.level:.1f} times "
        f"the mean tokens of an EP rank in {in_layers(one.load for one in group)}"
    )
    relative = relative_times(times)
    timed = [rank for rank in ranks if rank in relative]
    if not timed:
        return f"{what}; how long ranks compute experts was not recorded."
    first, last, ongoing = extent_of(group)
    if not ongoing:  # times are those of the newest steps
        return f"{what}, {when_text(first, last, ongoing)}; what it cost was not measured."
    longer, expected = (
        float(np.median([of_rank[rank] for rank in timed])) for of_rank in (relative, surplus)
    )
    if longer - 1 < LONGER * expected:
        return f"{what}, but compute these no longer."
    cost = cost_of_holders(times, ranks)
    if cost is None or cost.share < LEAST_COST:
        return f"{what}; steps take hardly longer for it."
    finding = _finding(group, ranks, what, attempt)
    return replace(
        finding,
        slowdown=round(longer, 3),
        cost=cost,
        evidence=(_time_evidence(times, timed, attempt), *finding.evidence),
    )


def _surplus(group: list[Uneven], holders: Holders) -> dict[int, float]:
    """By how much their tokens let ranks compute experts longer than the mean, of that mean: over
    all layers of which they hold experts.
    """
    found: dict[int, float] = {}
    for one in group:
        for rank in holders.ranks(one.load, one.expert):
            part = (one.level - 1) / holders.num_layers(rank)
            found[rank] = found.get(rank, 0.0) + part
    return found


def _finding(group: list[Uneven], ranks: list[int], what: str, attempt: int) -> Finding:
    first, last, ongoing = extent_of(group)
    return Finding(
        kind="expert_imbalance",
        attempt=attempt,
        severity=severity_of(ongoing),
        confidence="high",
        title=f"Experts of {named_holders(ranks)} are given more tokens than others",
        text=f"{what}, {when_text(first, last, ongoing)}. The other ranks wait for them.",
        culprits=tuple(map(Place, ranks)),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=tuple(
            _load_evidence(one, attempt)
            for one in sorted(group, key=lambda one: -one.level)[:MOST_EVIDENCE]
        ),
        alternatives=(
            "A slower device under the same experts: compare the ranks' time per token.",
        ),
        next_step="Place experts that are often chosen together on different ranks, keep copies of "
        "the fullest ones (redundant experts), or raise the load-balancing loss over EP ranks.",
        cause="The experts on these ranks are chosen more often than those of the others.",
    )


def _time_evidence(times: pa.Table, ranks: list[int], attempt: int) -> Evidence:
    row = max(
        (row for row in times.to_pylist() if row["rank"] in set(ranks)),
        key=lambda row: row["expert_step_ms"],
    )
    params = question_params(row["first_step"], row["last_step"], attempt)
    relative = relative_times(times)[row["rank"]]
    return Evidence(
        f"Rank {row['rank']} computes experts for {in_ms(row['expert_step_ms'])} of a step, "
        f"{relative:.2f} times the mean of its EP group.",
        round(row["expert_step_ms"], 4),
        "ms",
        "expert_times",
        params,
        experts_view(attempt, row["first_step"], row["last_step"]),
    )


def _load_evidence(one: Uneven, attempt: int) -> Evidence:
    return Evidence(
        f"In the median step the EP rank with expert {one.expert} of {one.where} had "
        f"{one.level:.2f} times the mean tokens of an EP rank.",
        round(one.level, 4),
        "x",
        "expert_load",
        load_params(one, attempt),
        expert_view(one, attempt),
    )

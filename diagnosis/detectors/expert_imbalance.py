"""expert_imbalance: one EP rank is given more tokens than the others, and they wait for it.

The tokens of the experts on one EP rank are above 1.2 times the mean of the EP ranks, and the noise
that fair routers show, in 20 steps in a row. It is a finding only while it goes on, where the ranks
that hold these experts were seen to compute them longer, by half of what the tokens let expect or
more, and where that costs 1 % of a step. Layers with a hot expert or a collapsed router are left to
these.

Source: no thresholds are published: ours. Assumes: experts of each rank are consecutive numbers.
Known false positives: slow ranks that also have more tokens. Blind spots: layers whose surplus is
on different ranks, which cancel out in the sum over layers by which ranks are compared; at most 64
ranks of each slice are looked at. Cost: one pass over the loads, and spans of the newest 20 steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.experts.findings import (
    MOST_EVIDENCE,
    experts_view,
    extent_of,
    in_layers,
    load_params,
    settled_text,
    severity_of,
    together,
)
from diagnosis.experts.holders import Holders, cost_of_holders, named_holders, relative_times
from diagnosis.experts.load import LayerLoad, layers_of
from diagnosis.experts.stretches import (
    CONSECUTIVE,
    Uneven,
    apart_from,
    collapses,
    full_slices,
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
    layers = [load for load in layers_of(tables["expert_load"]) if holders.slices(load.layer)]
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
    checked = (
        f"No {'other ' if findings else ''}EP rank has so many more tokens in any of {len(judged)} "
        "layers that the others wait for it."
    )
    return Verdict(NAME, tuple(findings), checked, set_aside=tuple(aside))


def _full(load: LayerLoad, holders: Holders) -> tuple[list[Uneven], list[Uneven]]:
    slices = [
        (row["first_expert"], row["local_experts"])
        for row in holders.slices(load.layer)
        if row["first_expert"] + row["local_experts"] <= load.experts
    ]
    found, settled = full_slices(load, slices)
    explained = [one for part in collapses(load) for one in part] + hot_experts(load)[0]
    return apart_from(found, explained), apart_from(settled, explained)


def _judged(
    group: list[Uneven], holders: Holders, tables: Mapping[str, pa.Table], attempt: int
) -> Finding | str:
    """A finding, or why it is none."""
    times = tables["expert_times"]
    worst = max(group, key=lambda one: one.level)
    ranks = sorted({rank for one in group for rank in holders.ranks(one.layer, one.expert)})
    what = (
        f"Experts of {named_holders(ranks)} have up to {worst.level:.1f} times the mean tokens of "
        f"an EP rank in {in_layers(one.layer for one in group)}"
    )
    relative = relative_times(times)
    seen = [relative[rank] for rank in ranks if rank in relative]
    if not seen:
        return f"{what}; how long ranks compute experts was not recorded."
    first, last, ongoing = extent_of(group)
    if not ongoing:  # times are those of the newest steps
        return f"{what}, {when_text(first, last, ongoing)}; what it cost was not measured."
    all_layers = {load.layer for load in layers_of(tables["expert_load"])}
    expected = sum(one.level - 1 for one in group) / len(all_layers)
    if float(np.median(seen)) - 1 < LONGER * expected:
        return f"{what}, but compute these no longer."
    cost = cost_of_holders(times, ranks)
    if cost is None or cost.share < LEAST_COST:
        return f"{what}; steps take hardly longer for it."
    return _finding(group, ranks, what, tables, attempt)


def _finding(
    group: list[Uneven], ranks: list[int], what: str, tables: Mapping[str, pa.Table], attempt: int
) -> Finding:
    first, last, ongoing = extent_of(group)
    times = tables["expert_times"]
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
        slowdown=round(float(np.median([relative_times(times)[rank] for rank in ranks])), 3),
        cost=cost_of_holders(times, ranks),
        evidence=(
            _time_evidence(times, ranks, attempt),
            *(
                _load_evidence(one, attempt)
                for one in sorted(group, key=lambda one: -one.level)[:MOST_EVIDENCE]
            ),
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
        (row for row in times.to_pylist() if row["rank"] in ranks and row["expert_step_ms"]),
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
        experts_view(attempt, row["first_step"], row["last_step"], -1, -1),
    )


def _load_evidence(one: Uneven, attempt: int) -> Evidence:
    return Evidence(
        f"In the median step the EP rank with expert {one.expert} of layer {one.layer} had "
        f"{one.level:.2f} times the mean tokens of an EP rank.",
        round(one.level, 4),
        "x",
        "expert_load",
        load_params(one, attempt),
        experts_view(attempt, one.first_step, one.last_step, one.layer, one.expert),
    )

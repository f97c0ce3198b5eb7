"""Ranks that lose time in two ways over the same steps: one cause of both is likelier than two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diagnosis.findings import CONFIDENCES, Cost, Finding
from diagnosis.kind_titles import KIND_TITLES
from diagnosis.one_cause.episodes import (
    NEAR_STEPS,
    most_urgent,
    num_steps,
    shared_steps,
    steps_of,
)
from diagnosis.statistics.units import when_text

_OWN_TIME = ("slow_worker", "data_loader", "gc_pauses", "launch_skew", "host_contention")
"""Kinds that say in what a rank loses time."""

_MOST = 0.8


def of_same_ranks(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Findings that name the same ranks, begin together and share nearly all of their steps as one,
    in place of the most urgent and costliest of them.
    """
    changed: dict[int, Finding | str | None] = {}
    for index, finding in enumerate(findings):
        if index in changed:
            continue
        later = (at for at in range(index + 1, len(findings)) if at not in changed)
        members = [index, *(at for at in later if _are_one(finding, findings[at]))]
        if len(members) > 1:
            parts = [findings[member] for member in members]
            main = most_urgent(parts)
            changed |= dict.fromkeys(members)
            changed[members[parts.index(main)]] = _joined(main, [p for p in parts if p is not main])
    return changed


def _are_one(finding: Finding, other: Finding) -> bool:
    if finding.kind not in _OWN_TIME or other.kind not in _OWN_TIME:
        return False
    if not finding.culprits or _who(finding) != _who(other):
        return False
    if abs(finding.first_step - other.first_step) > NEAR_STEPS:
        return False
    shared = num_steps(shared_steps(finding, other))
    return shared >= _MOST * max(num_steps(steps_of(finding)), num_steps(steps_of(other)))


def _who(finding: Finding) -> tuple[object, ...]:
    return (*sorted(place.rank for place in finding.culprits), finding.stages, finding.hosts)


def _joined(main: Finding, others: Sequence[Finding]) -> Finding:
    """The main finding with what the others say, and what all of them cost."""
    kinds = " and ".join(f"“{KIND_TITLES[part.kind]}”" for part in (main, *others))
    culprits = {place.rank for place in main.culprits}
    victims = {rank for part in (main, *others) for rank in part.victims}
    alternatives = [text for part in (main, *others) for text in part.alternatives]
    return replace(
        main,
        confidence=min((p.confidence for p in (main, *others)), key=CONFIDENCES.index),
        text=" ".join((main.text, *map(_meanwhile, others))),
        victims=tuple(sorted(victims - culprits)),
        cost=_sum([part.cost for part in (main, *others) if part.cost is not None]),
        evidence=tuple(evidence for part in (main, *others) for evidence in part.evidence),
        alternatives=tuple(dict.fromkeys(alternatives)),
        cause=f"These ways of losing time began together: {kinds}. One cause of all, such as a "
        "slow or shared CPU, device or host, is likelier than several.",
        next_step=" ".join(dict.fromkeys(part.next_step for part in (main, *others))),
    )


def _meanwhile(part: Finding) -> str:
    """Its text without its steps, which the main one says."""
    steps = when_text(part.first_step, part.last_step, part.ongoing)
    return part.text.replace(f" {steps}", " meanwhile", 1)


def _sum(costs: Sequence[Cost]) -> Cost | None:
    """Of what is lost in ways that follow each other within a step."""
    if not costs:
        return None
    step_ms = max(cost.step_ms for cost in costs)
    longer_ms = min(round(sum(cost.ms_per_step for cost in costs), 3), step_ms)
    return replace(costs[0], ms_per_step=longer_ms, step_ms=step_ms)

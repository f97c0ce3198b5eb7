"""A slower job is a finding where no other explains its steps; it replaces those that name nobody
and lie within its steps. What others explain is asked when these are merged: of ranks that are too
many to be at fault each by itself nothing is left that explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diagnosis.findings import Diagnosis, Finding
from diagnosis.one_cause.changes import with_changes
from diagnosis.one_cause.episodes import (
    NEAR_STEPS,
    lost_ms,
    num_steps,
    of_one_place,
    shared_steps,
    steps_of,
)
from diagnosis.statistics.step_levels import FEWEST_STEPS

EXPLAINED = 0.5
"""A finding on the whole job is left out where others take this share of what it costs."""


def unexplained(
    diagnosis: Diagnosis, name: str, merge: Callable[[Diagnosis], Diagnosis]
) -> Diagnosis:
    """With the others merged, and without findings of the detector of slower jobs whose steps these
    explain.
    """
    apart = {v.detector: v for v in diagnosis.verdicts if v.detector == name}
    others = merge(Diagnosis(tuple(v for v in diagnosis.verdicts if v.detector != name)))
    known = apart | {v.detector: v for v in others.verdicts}
    together = Diagnosis(tuple(known[v.detector] for v in diagnosis.verdicts))
    slower = [finding for verdict in apart.values() for finding in verdict.findings]
    own = {id(finding) for finding in slower}

    def change(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        others = [finding for finding in flat if id(finding) not in own]
        kept = [finding for finding in slower if not _is_explained(finding, others)]
        changed: dict[int, Finding | str | None] = {}
        for index, finding in enumerate(flat):
            if id(finding) in own:
                changed |= {} if finding in kept else {index: None}
            elif finding.kind == _COMPUTES and any(_holds(other, finding) for other in others):
                changed[index] = (
                    f"{finding.text} Another finding names who was slow in these steps."
                )
            elif any(_is_part(finding, whole) for whole in kept):
                changed[index] = f"{finding.text} That is part of what all steps are longer by."
        return changed

    return with_changes(together, [change, of_one_place])


_PART = 0.8


def _is_part(finding: Finding, whole: Finding) -> bool:
    """Whether it names nobody, and its steps are among those of the whole job's finding."""
    shared = num_steps(shared_steps(finding, whole))
    return not _names(finding) and shared >= _PART * num_steps(steps_of(finding))


def _names(finding: Finding) -> bool:
    return bool(finding.culprits or finding.stages or finding.hosts)


def _is_explained(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether one that names somebody begins when it does and lasts as long or holds its few steps,
    or what others cost in half of these steps or more is EXPLAINED of what it costs.
    """
    own = num_steps(steps_of(finding))
    near = max(NEAR_STEPS, own // 10)
    taken, covered = 0.0, list[tuple[int, int]]()
    for other in others:
        both = shared_steps(finding, other)
        shared = num_steps(both)
        begins = min(abs(first - finding.first_step) for first, _ in steps_of(other)) <= near
        lasts = shared >= _PART * own
        if (lasts and begins and _names(other)) or _holds(other, finding):
            return True
        if lasts and begins and _may_be_all(other, finding, shared):
            return True
        if other.cost and shared:
            taken += other.cost.ms_per_step * shared
            covered += both
    return taken >= EXPLAINED * lost_ms(finding) and 2 * num_steps(covered) >= own


def _holds(other: Finding, finding: Finding) -> bool:
    """Whether it names somebody in most steps of a short one."""
    own = num_steps(steps_of(finding))
    lasts = num_steps(shared_steps(finding, other)) >= _PART * own
    return lasts and own < FEWEST_STEPS and other.kind != _RARE and _names(other)


def _may_be_all(other: Finding, finding: Finding, shared: int) -> bool:
    """Whether a slower operation or slower transfers of all ranks cost a fair part of it: what each
    takes longer adds up along a pipeline, which the estimate of their cost does not know.
    """
    if other.kind not in ("slow_op", "comm_regression") or other.cost is None:
        return False
    return other.cost.ms_per_step * shared >= _FAIR_PART * lost_ms(finding)


_FAIR_PART = 1 / 3
_COMPUTES = "step_regression"
"""Also what the detector of longer compute finds."""

_RARE = "jit_spikes"
"""Of all the steps from its first to its last one it means a few, which never follow each other."""

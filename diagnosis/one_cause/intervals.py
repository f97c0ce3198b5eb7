"""A rank that loses one step of so many, which two findings say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diagnosis.findings import Diagnosis, Finding
from diagnosis.one_cause.changes import with_changes
from diagnosis.one_cause.episodes import num_steps, shared_steps, steps_of

_SAYS_WHY = "allocator_stalls"
"""What its retries take lies in phases in which the rank comes late."""

_SAYS_WHEN = "jit_spikes"
"""It knows the steps, and not in which phase the rank loses them."""

_IS_SLOW = "slow_worker"

_MOST = 0.8


def said_once(diagnosis: Diagnosis, name: str) -> Diagnosis:
    """Without findings of the detector of ranks late at intervals where another one says why, and
    without rare long steps on ranks that it names, whose steps become evidence of it.
    """
    found = [f for v in diagnosis.verdicts if v.detector == name for f in v.findings]

    def change(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        whys = [finding for finding in flat if finding.kind == _SAYS_WHY]
        late = [f for f in found if not any(_is_of(f, why) for why in whys)]
        whens = [f for f in flat if f.kind == _SAYS_WHEN and _named_by(f, late)]
        changed: dict[int, Finding | str | None] = {}
        for index, finding in enumerate(flat):
            if finding in late:
                more = tuple(when.evidence[0] for when in whens if _is_of(finding, when))
                changed[index] = replace(finding, evidence=(*finding.evidence, *more))
            elif finding in found or finding in whens:
                changed[index] = None
        return changed

    return with_changes(diagnosis, [change])


def rare_steps_of_slow_ranks(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Rare long steps on ranks that are named as slow in these steps become evidence of that."""
    slow = [finding for finding in flat if finding.kind == _IS_SLOW]
    whens = [f for f in flat if f.kind == _SAYS_WHEN and _named_by(f, slow)]
    changed: dict[int, Finding | str | None] = {}
    for index, finding in enumerate(flat):
        more = tuple(w.evidence[0] for w in whens if finding in slow and _is_of(finding, w))
        if more:
            changed[index] = replace(finding, evidence=(*finding.evidence, *more))
        elif finding in whens:
            changed[index] = None
    return changed


def _named_by(rare: Finding, late: Sequence[Finding]) -> bool:
    """Whether these name each of its ranks."""
    named = {place.rank for one in late if _is_of(one, rare) for place in one.culprits}
    return bool(rare.culprits) and {place.rank for place in rare.culprits} <= named


def _is_of(finding: Finding, other: Finding) -> bool:
    """Whether the other one means its rank, or all ranks, in most of its steps."""
    ranks = {place.rank for place in other.culprits}
    means = not ranks or {place.rank for place in finding.culprits} <= ranks
    shared = num_steps(shared_steps(finding, other))
    return means and shared >= _MOST * num_steps(steps_of(finding))

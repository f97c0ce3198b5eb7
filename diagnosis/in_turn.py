"""Ranks that are late in turn: whichever of them it is, steps take as long.

On busy hosts, and where work moves among ranks, one rank is late for a while, then another one.
Each of them is late evenly and last, as a culprit is; but steps are no longer than those near them,
in which other ranks come as late for as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diagnosis.costs import Without, measured
from diagnosis.findings import Cost, Diagnosis, Finding
from diagnosis.one_cause.changes import with_changes
from diagnosis.statistics.phase_times import PhaseTimes
from diagnosis.statistics.rank_tables import Bools, Floats
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.units import in_ms

LEAST_PART = 0.25
"""Of what a rank comes late by: steps that are longer by less are not longer for it."""

AS_LATE = 0.5
"""Of what it comes late by, others do in most steps near it."""

FEWEST_NEAR = 8
"""Steps that are compared with: in fewer, others are not late for long."""

_KINDS = ("slow_worker", "data_loader", "launch_skew", "host_contention")
"""Kinds whose estimated cost is by how much ranks come late in each step."""


def not_in_turn(diagnosis: Diagnosis, times: PhaseTimes) -> Diagnosis:
    """Without findings on ranks that are late in turn with others."""

    def change(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        changed: dict[int, Finding | str | None] = {}
        latest_S: Floats | None = None
        for index, finding in enumerate(flat):
            if finding.kind not in _KINDS or not finding.culprits:
                continue
            cost, without = measured(finding, flat, times.step_S, times.window_S)
            if cost is None or without is None or not _is_free(finding, cost, without):
                continue
            if latest_S is None:
                latest_S = _latest(times.late_RS)
            if _as_late(latest_S, without.steps.with_S, without.steps.without_S):
                changed[index] = (
                    f"{finding.text} But others come as late in the steps near these: they take "
                    f"{in_ms(without.mean_ms)} on average, and these {in_ms(cost.step_ms)}."
                )
        return changed

    return with_changes(diagnosis, [change])


def _is_free(finding: Finding, cost: Cost, without: Without) -> bool:
    """Whether steps are hardly longer with it than many near it."""
    if without.steps.part < 1.0 or without.steps.without_S.sum() < FEWEST_NEAR:
        return False
    estimated = finding.cost.ms_per_step if finding.cost else 0.0
    return cost.ms_per_step < LEAST_PART * estimated


def _latest(late_RS: Floats) -> Floats:
    """What the rank that comes latest for some steps does so by, in each step."""
    latest_S: Floats = np.nan_to_num(running_medians(late_RS)).max(axis=0, initial=0.0)
    return latest_S


def _as_late(latest_S: Floats, own_S: Bools, near_S: Bools) -> bool:
    return bool(np.median(latest_S[near_S]) >= AS_LATE * np.median(latest_S[own_S]))

"""Ranks that are late in turn while steps take as long: nobody is named; a rank late alone is."""

from __future__ import annotations

import pytest

from diagnosis.findings import Diagnosis, Verdict
from diagnosis.in_turn import not_in_turn
from diagnosis.statistics.phase_times import phase_times
from tests.diagnosis.test_one_cause import finding
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, BLOCK = 120, 30
LATE_MS = 40.0


def left(late: dict[int, int], waits: bool, kind: str = "data_loader") -> Diagnosis:
    """Of a finding on rank 3 in steps 30 to 59. `late`: a rank of each block of 30 steps. `waits`:
    whether steps are longer for the latest rank; else all have something to do meanwhile.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        somebody = step // BLOCK in late
        own = LATE_MS if somebody and late[step // BLOCK] == rank else 0.0
        wait = LATE_MS - own if somebody else 0.0
        idle = 0.0 if somebody or waits else LATE_MS
        return {
            "step_ms": 200.0 + own + wait + idle,
            "covered_ms": 200.0 + own + wait + idle,
            "data_ms": 2.0 + own,
            "comm_ms": 48.0 + wait + idle,
        }

    tables = phase_tables(DP8, STEPS, phases)
    found = finding(3, 30, 59, LATE_MS, kind=kind)
    return not_in_turn(Diagnosis((Verdict("x", (found,)),)), phase_times(tables))


def test_ranks_in_turn_are_not_named() -> None:
    diagnosis = left({0: 1, 1: 3, 2: 6, 3: 0}, waits=True)
    assert diagnosis.findings == ()
    assert "others come as late in the steps near these" in diagnosis.set_aside[0]


@pytest.mark.parametrize("waits", [True, False])
def test_a_rank_that_alone_is_late_is_named(waits: bool) -> None:
    assert left({1: 3}, waits).findings


def test_where_steps_are_longer_for_it_others_do_not_matter() -> None:
    assert left({1: 3, 2: 6}, waits=True).findings


def test_a_kind_without_lateness_is_left_alone() -> None:
    assert left({0: 1, 1: 3, 2: 6, 3: 0}, waits=True, kind="gc_pauses").findings

"""Whom a healthy job's habits delay: the rank that stalls, in the steps in which it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_traces.generate.habits import Habits
from sample_traces.generate.labelled.drawn_log import LabelledLog
from sample_traces.generate.labelled.stall_truth import StallTruth
from sample_traces.generate.phase_log.job import LogJob

HABITS = Habits(stalls=((20, 59, 3, 0.4),), stall_phase="data")


@pytest.fixture(scope="module")
def truth() -> StallTruth:
    """Eight ranks, of which rank 3 loads 40 % of a step longer in every second of 40 steps."""
    shares = (("data", 0.05), ("compute", 0.85), ("rest", 0.06))
    job = LogJob(8, 100, 200.0, shares, (("compute", 1.0),), frozenset(), HABITS)
    (found,) = LabelledLog(job, ()).delays
    return found


@pytest.mark.parametrize(
    ("kind", "ranks", "steps", "is_true"),
    [
        ("data_loader", [3], (20, 59), True),
        ("data_loader", [3], (24, 65), True),
        ("data_loader", [3], (50, 90), False),
        ("data_loader", [2], (20, 59), False),
        ("data_loader", [2, 3], (20, 59), False),
        ("data_loader", [], (20, 59), False),
        ("slow_stage", [3], (20, 59), False),
    ],
)
def test_who_is_late_for_a_stall_and_when(
    truth: StallTruth, kind: str, ranks: list[int], steps: tuple[int, int], is_true: bool
) -> None:
    assert truth.delays(kind, ranks, *steps) == is_true


def test_a_stall_that_makes_no_step_longer_is_no_reason(truth: StallTruth) -> None:
    short = replace(HABITS, stalls=((20, 59, 3, 0.01),))
    assert not replace(truth, habits=short).delays("data_loader", [3], 20, 59)


def test_steps_count_from_where_the_job_resumed(truth: StallTruth) -> None:
    resumed = replace(truth, resumed_at=1000)
    assert resumed.delays("data_loader", [3], 1020, 1059)
    assert not resumed.delays("data_loader", [3], 20, 59)

"""Ranks that come late in one step of so many, however little that costs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from diagnosis.detectors.late_at_intervals import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, FROM = 140, 40


def judged(phases: Phases) -> Verdict | None:
    return detect(phase_tables(DP8, STEPS, phases), attempt=0)


def named(verdict: Verdict | None) -> list[tuple[str, int]]:
    return [(f.kind, f.culprits[0].rank) for f in (verdict.findings if verdict else ())]


def late_every(gap: int, ms: float = 30.0, begins: int = FROM, costs: bool = True) -> Phases:
    """Rank 3 loads for longer; any rank does once in 50 steps, by as much."""
    by_chance = np.random.default_rng(2).random((8, STEPS)) < 0.02

    def phases(rank: int, step: int) -> dict[str, float]:
        comes = step >= begins and (step - begins) % gap == 0
        late = [other for other in range(8) if by_chance[other, step] or (comes and other == 3)]
        longer = ms if late and costs else 0.0
        own = ms if rank in late else 0.0
        return {"step_ms": 200.0 + longer, "data_ms": 2.0 + own, "comm_ms": 40.0 + longer - own}

    return phases


def test_it_does_not_deny_what_came_round_from_the_first_steps_on() -> None:
    """That may be the rank's share, and is not named."""
    verdict = judged(late_every(10, begins=0))
    assert verdict is not None
    assert verdict.findings == ()
    assert "since some step of the run" in (verdict.checked or "")


@pytest.mark.parametrize("gap", [4, 10, 13])
def test_a_rank_that_is_late_in_one_step_of_so_many_is_named(gap: int) -> None:
    verdict = judged(late_every(gap))
    assert named(verdict) == [("data_loader", 3)]
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.title == f"Rank 3 comes late in one step of {gap}"
    assert (finding.first_step, finding.ongoing) == (FROM, True)
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(30.0 / gap, rel=0.15)


def test_of_a_log_of_every_tenth_step_the_distance_is_that_of_the_job() -> None:
    tables = phase_tables(DP8, STEPS, late_every(10))
    cells = tables["rank_phases"]
    at, tenth = cells.schema.get_field_index("step"), pa.scalar(10, pa.int64())
    steps = pc.multiply(cells["step"], tenth)
    verdict = detect(tables | {"rank_phases": cells.set_column(at, "step", steps)}, attempt=0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.title == "Rank 3 comes late in one step of 100"
    assert finding.next_step == "Look at what this rank does every 100 steps and its peers do not."


def test_what_comes_at_no_distance_or_in_every_second_step_names_nobody() -> None:
    assert named(judged(late_every(2))) == []
    verdict = judged(late_every(STEPS, begins=0))
    assert verdict is not None
    assert (verdict.findings, verdict.checked is not None) == ((), True)


def test_what_came_round_from_the_first_steps_on_may_be_the_share_of_the_rank() -> None:
    assert named(judged(late_every(10, begins=5))) == []


def test_steps_that_are_no_longer_for_it_name_nobody() -> None:
    assert named(judged(late_every(10, costs=False))) == []


def test_too_few_to_know_the_distance_by() -> None:
    assert named(judged(late_every(10, begins=STEPS - 40))) == []

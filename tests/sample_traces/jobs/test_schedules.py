"""Stages of each pipeline rank, by schedule: every stage runs once."""

from __future__ import annotations

import pytest

from sample_traces.jobs.schedules import NAMES, num_stages, stage_indices


@pytest.mark.parametrize("schedule", NAMES)
def test_every_stage_runs_on_one_rank(schedule: str) -> None:
    stages = [index for pp in range(4) for index in stage_indices(schedule, pp, 4)]
    assert sorted(stages) == list(range(num_stages(schedule, 4)))


def test_zbv_returns_the_way_it_came() -> None:
    assert stage_indices("zbv", 0, 4) == (0, 7)
    assert stage_indices("interleaved", 0, 4) == (0, 4)

"""A kept run that is diagnosed again, as if it were live."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.real.again import FAR_STRIDE, diagnosed_again, moments, runs_below
from benchmarks.real.plan import Episode
from benchmarks.real.records import TRUTH, append
from sample_traces import RECORDED


def test_each_step_of_an_episode_and_some_others_are_moments() -> None:
    steps = list(range(200))
    found = list(moments(steps, [Episode("gc", "loud", (1,), 52, 71)]))
    assert found[:3] == [5, 10, 15]
    assert set(range(52, 72)) <= set(found)
    assert found[-1] == 199
    assert all(step % FAR_STRIDE == 0 for step in found if step < 52)


def test_one_step_in_some_is_enough_where_delays_do_not_matter() -> None:
    steps = list(range(200))
    found = set(moments(steps, [Episode("gc", "loud", (1,), 52, 71)], every=5))
    assert found == {25, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 125, 150, 175, 199}


@pytest.mark.long
def test_a_kept_run_is_diagnosed_by_the_end_of_each_step(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "slow"
    shutil.copytree(RECORDED / "slow_rank", folder, ignore=shutil.ignore_patterns("index"))
    old = Episode("slow-rank", "loud", (5,), 5, 13, 0.6, ["slow-rank=5,x=1.6,from=5"], wrong=["x"])
    row = {"id": "slow", "number": 0, "layout": "3d", "neighbour": False}
    append(folder / TRUTH, row, [old])
    before = sorted(path.name for path in folder.iterdir())
    assert runs_below(tmp_path / "kept") == [folder]
    job, again = diagnosed_again(folder)
    [episode] = job.episodes
    assert again["id"] == "slow"
    assert episode.wrong == []
    assert episode.onset == 5
    assert episode.delay_s is not None
    assert 2 * episode.step_s < episode.delay_s < 9 * episode.step_s
    assert sorted(path.name for path in folder.iterdir()) == before

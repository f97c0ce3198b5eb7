"""Cells against their peers: the same rule as in SQL, on real, restarted and made-up runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from app.views.ranks.grid import grid
from app.views.ranks.metric_matrix import _matrix, cells, fitting_part, last_steps, newest_part
from app.views.ranks.scales import IN_NOISE, METRICS, NO_DATA
from ingest.errors import UserError
from ingest.run import open_run
from sample_traces import RECORDED
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout

SLOWDOWN = METRICS["slowdown"]
HALF_STRENGTH = 128


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Opens a copy of a recorded sample."""
    opened = {}

    def opener(name):
        if name not in opened:
            folder = tmp_path_factory.mktemp("recorded") / name
            shutil.copytree(RECORDED / name, folder)
            opened[name] = open_run(folder)
        return opened[name]

    yield opener
    for run in opened.values():
        run.close()


def test_no_rank_of_a_healthy_run_is_coloured(recorded):
    run = recorded("healthy")
    assert set(grid(cells(run, SLOWDOWN, steps=last_steps(run))).code_R) == {IN_NOISE}


def test_hardly_a_cell_of_a_healthy_run_is_coloured_and_none_strongly(recorded):
    """Steps of a real job on shared cores: single ones do lie far off."""
    whole = cells(recorded("healthy"), SLOWDOWN)
    assert (whole.code_RS > IN_NOISE).mean() < 0.03
    assert whole.code_RS.max() < HALF_STRENGTH


def test_the_slow_rank_is_coloured_from_the_faults_step_on(recorded):
    run = recorded("slow_rank")
    (fault,) = json.loads((run.folder / "run.json").read_text())["truth"]["faults"]
    whole = cells(run, SLOWDOWN)
    begin = fault["from"] - int(whole.steps_S[0])
    coloured = whole.code_RS > IN_NOISE
    assert (whole.code_RS[fault["rank"], begin:] > HALF_STRENGTH).all()
    assert (whole.code_RS[fault["rank"], begin:] % 2 == 1).all(), "slower, not faster"
    assert not coloured[fault["rank"], :begin].any()
    others = np.delete(whole.code_RS, fault["rank"], axis=0)
    assert others.max() < HALF_STRENGTH
    assert (others > IN_NOISE).mean() < 0.03
    shown = grid(cells(run, SLOWDOWN, steps=(fault["from"], int(whole.steps_S[-1]))))
    assert list(np.flatnonzero(shown.code_R > IN_NOISE)) == [fault["rank"]]


LAYOUTS = {
    "dp": ParallelLayout.from_sizes(tp=2, dp=5),
    "stage": ParallelLayout.from_sizes(pp=2, tp=2, dp=2),
    "own past": ParallelLayout.from_sizes(pp=3, tp=1, dp=1),
    "unknown": None,
}


def random_run(folder, layout, num_ranks, missing=()):
    builder = RunBuilder(folder, num_ranks, layout)
    draw = np.random.default_rng(3)
    for step in range(30):
        for rank in range(num_ranks):
            if (rank, step) in missing:
                continue
            length = 40 + 20 * draw.random() + 10 * rank
            builder.step(rank, step, step * 100, step * 100 + 100)
            builder.span(rank, step, "forward", step * 100, step * 100 + length)
    builder.rank_files()
    builder.publish()
    return open_run(builder.folder)


@pytest.mark.parametrize("peers", LAYOUTS)
def test_slowdown_is_that_of_the_sql_macro(tmp_path, peers):
    layout = LAYOUTS[peers]
    num_ranks = layout.world_size if layout else 6
    missing = {(1, 4), (2, 4), (0, 7)}
    with random_run(tmp_path / "run", layout, num_ranks, missing) as run:
        whole = cells(run, SLOWDOWN)
        rows = run.sql("FROM slowdowns(NULL, 0, 100)").to_pylist()
    assert ("dp" if peers == "unknown" else peers) in {row["peers"] for row in rows}
    assert len(rows) == num_ranks * 30 - 3
    expected = np.full(whole.value_RS.shape, np.nan)
    for row in rows:
        if row["slowdown"] is not None:
            expected[row["rank"], row["step"]] = row["slowdown"]
    np.testing.assert_allclose(whole.value_RS, expected, rtol=1e-5)
    assert (whole.code_RS == NO_DATA).sum() == np.isnan(expected).sum()


def test_where_slowdowns_begin_is_known_for_ranks_that_are_compared_with_their_past(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=6)
    with open_run(builder.folder) as run:
        of_two = cells(run, SLOWDOWN)
        assert cells(run, METRICS["compute"]).compared_from is None
    assert of_two.compared_from == 3
    assert np.isnan(of_two.value_RS[:, :3]).all()
    assert not np.isnan(of_two.value_RS[:, 3:]).any()


def test_noise_of_the_grid_is_that_of_slowest_ranks(tmp_path):
    with random_run(tmp_path / "run", LAYOUTS["dp"], 10) as run:
        shown = cells(run, SLOWDOWN, steps=last_steps(run))
        rows = {row["rank"]: row for row in run.ask("slowest_ranks", top=10).to_pylist()}
        drawn = grid(shown)
        ((part, group),) = shown.parts()
        over_steps, _ = shown.spreads(shown.deviation(part), group)
    for rank in range(10):
        assert drawn.value_R[rank] == pytest.approx(rows[rank]["slowdown"], rel=1e-5)
        assert 3 * over_steps[rank, -1] == pytest.approx(rows[rank]["noise"], rel=1e-4)


def test_times_are_compared_with_the_peers_median_as_a_share_of_the_step(tmp_path):
    builder = RunBuilder(tmp_path / "run", 5, ParallelLayout.from_sizes(dp=5))
    for step in range(4):
        for rank in range(5):
            builder.step(rank, step, step * 100, step * 100 + 100)
            wait = 30 if rank == 3 else 10
            builder.span(rank, step, "data_wait", step * 100, step * 100 + wait)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        matrix = cells(run, METRICS["data_wait"])
    assert matrix.step_ms == pytest.approx(0.1)
    assert matrix.deviation()[3] == pytest.approx([0.2] * 4, rel=1e-4)
    assert (matrix.code_RS[3] > IN_NOISE).all()
    assert (np.delete(matrix.code_RS, 3, axis=0) == IN_NOISE).all()


def test_a_run_without_a_finished_step_is_empty(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        assert last_steps(run) is None
        matrix = cells(run, SLOWDOWN)
        assert matrix.value_RS.shape == (2, 0)
        assert list(grid(matrix).code_R) == [NO_DATA, NO_DATA]
        assert grid(matrix).steps is None


def test_a_metric_that_was_not_recorded_is_no_zero(recorded):
    matrix = cells(recorded("healthy"), METRICS["exposed_dp"], steps=(0, 2))
    assert matrix.has_values
    with_no_gpu = cells(recorded("healthy"), METRICS["bubble"], steps=(90, 99))
    assert not with_no_gpu.has_values


def test_after_a_restart_each_step_is_compared_within_its_attempt(tmp_path):
    """Attempt 0 has 8 ranks, attempt 1 repeats the last step with 4; rank 1 is slow in it."""
    builder = RunBuilder(tmp_path / "run", 8, ParallelLayout.from_sizes(dp=8))
    for step in range(3):
        for rank in range(8):
            builder.step(rank, step, step * 100, step * 100 + 100)
            builder.span(rank, step, "forward", step * 100, step * 100 + 50)
    builder.rank_files()
    builder.publish()
    builder.world_size, builder.layout = 4, ParallelLayout.from_sizes(dp=4)
    for rank in range(4):
        builder.step(rank, 2, 500, 600, attempt=1)
        builder.span(rank, 2, "forward", 500, 580 if rank == 1 else 540, attempt=1)
    builder.rank_files(attempt=1)
    builder.publish()
    with open_run(builder.folder) as run:
        both, old = cells(run, SLOWDOWN), cells(run, SLOWDOWN, attempt=0)
    assert list(both.places.rank_R) == [0, 1, 2, 3]
    assert both.value_RS[:, 1] == pytest.approx([1, 1, 1, 1])
    assert both.value_RS[:, 2] == pytest.approx([1, 2, 1, 1])
    assert old.value_RS.shape == (8, 3)
    assert old.value_RS[:, 2] == pytest.approx([1] * 8)


def test_a_planted_fault_is_all_that_is_coloured_among_many_ranks(tmp_path):
    job = SyntheticJob(
        num_ranks=512,
        pp=4,
        tp=4,
        num_steps=40,
        level="steps",
        faults=(SyntheticFault.parse("slow_worker=77,x=1.4,from=20"),),
    )
    generate(job, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        whole = cells(run, SLOWDOWN)
        assert newest_part(run, None, most_cells=2_000) == (20, 39)
        assert newest_part(run, None, most_cells=1_000_000) is None
    coloured = whole.code_RS > IN_NOISE
    assert coloured[77, 20:].all()
    coloured[77] = False
    assert coloured.sum() <= 2


STEPS_WITH_GAPS = [0, 1, 2, 3, 4, 5, 30_000_000]


def run_with_gaps(folder: Path):
    """4 ranks; rank 2 is slow in the last step."""
    builder = RunBuilder(folder, 4, ParallelLayout.from_sizes(dp=4))
    for number, step in enumerate(STEPS_WITH_GAPS):
        for rank in range(4):
            begin, length = number * 100, 80 if (rank, step) == (2, 30_000_000) else 50
            builder.step(rank, step, begin, begin + 100)
            builder.span(rank, step, "forward", begin, begin + length)
    builder.rank_files()
    builder.publish()
    return open_run(builder.folder)


def test_there_are_as_many_columns_as_steps_whatever_their_numbers(tmp_path):
    with run_with_gaps(tmp_path / "run") as run:
        whole = cells(run, SLOWDOWN)
        some = cells(run, SLOWDOWN, steps=(4, 30_000_000))
    assert list(whole.steps_S) == STEPS_WITH_GAPS
    assert whole.value_RS.shape == (4, 7)
    assert whole.value_RS[2] == pytest.approx([1] * 6 + [1.6])
    assert list(some.steps_S) == [4, 5, 30_000_000]
    assert list(whole.attempt_S) == [0] * 7


def test_rows_of_an_answer_find_their_ranks_whatever_their_numbers():
    rank_R, nan = np.array([3, 7, 2**40]), np.nan
    result = _matrix(
        rank_R,
        np.array([2**40, 3, 5, 2**41, 7]),
        np.array([1, 0, 0, 1, 1]),
        np.float32([1, 2, 3, 4, 5]),
        2,
    )
    np.testing.assert_array_equal(result, np.float32([[2, nan], [nan, 5], [nan, 1]]))


def test_more_cells_than_can_be_held_are_a_sentence_and_the_newest_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("app.views.ranks.metric_matrix.MOST_CELLS", 13)
    with run_with_gaps(tmp_path / "run") as run:
        with pytest.raises(UserError, match=r"4 ranks x 7 steps are too many.*3 steps or fewer"):
            cells(run, SLOWDOWN)
        assert fitting_part(run, None) == (4, 30_000_000)
        assert fitting_part(run, None, (0, 5)) == (3, 5)
        assert fitting_part(run, None, (2, 4)) is None
        assert list(cells(run, SLOWDOWN, steps=(4, 30_000_000)).steps_S) == [4, 5, 30_000_000]


def test_a_profile_of_some_steps_begins_with_the_first_of_them(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    for step in (10, 12):
        builder.step(0, step, step * 100, step * 100 + 90)
        builder.span(0, step, "forward", step * 100, step * 100 + 50)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        assert last_steps(run) == (10, 12)

"""The questions behind the ranks page: rows in, table out."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two ranks, tp 2; rank 1 comes 20 us late to the all-reduce of every step of 100 us."""
    with open_run(two_rank_run(tmp_path_factory.mktemp("ranks") / "run").folder) as opened:
        yield opened


def cells(run, metric, **params):
    rows = run.ask("rank_cells", metric=metric, **params).to_pylist()
    return {(row["rank"], row["step"]): row["value_ms"] for row in rows}


@pytest.mark.parametrize(
    ("metric", "rank_0", "rank_1"),
    [
        ("step_time", 0.1, 0.1),
        ("data_wait", 0.01, 0.01),
        ("compute", 0.06, 0.08),  # the collective inside of the forward is communication
        ("exposed_comm", 0.03, 0.01),
        ("exposed_tp", 0.03, 0.01),
        ("wait", 0.02, 0.0),
        ("wait_caused", 0.0, 0.02),
        ("not_visible", 0.0, 0.0),
    ],
)
def test_rank_cells(run, metric, rank_0, rank_1):
    by_cell = cells(run, metric)
    assert len(by_cell) == 6
    assert by_cell[0, 1] == pytest.approx(rank_0, abs=1e-6)
    assert by_cell[1, 1] == pytest.approx(rank_1, abs=1e-6)


def test_work_is_cpu_time_where_the_job_ran_on_cpu(run):
    assert cells(run, "work") == cells(run, "cpu")


def test_rank_cells_of_some_steps(run):
    assert {step for _, step in cells(run, "compute", step_min=1, step_max=2)} == {1, 2}


def test_a_metric_that_was_not_recorded_has_no_cells(run):
    assert cells(run, "exposed_dp") == {}
    assert cells(run, "nothing of that name") == {}


def test_a_step_that_is_not_finished_has_no_cell(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    builder.step(0, 0, 0, 100)
    for step in range(2):
        builder.span(0, step, "forward", 100 * step + 10, 100 * step + 60)
    builder.publish()
    with open_run(builder.folder) as opened:
        assert cells(opened, "compute") == {(0, 0): pytest.approx(0.05)}


def test_rank_list(tmp_path):
    builder = RunBuilder(
        tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, tp=2), hosts=["a", "a", "b", "b"]
    )
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as opened:
        rows = opened.ask("rank_list").to_pylist()
    assert [(row["rank"], row["host"], row["pp"], row["tp"], row["cp"]) for row in rows] == [
        (0, "a", 0, 0, None),
        (1, "a", 0, 1, None),
        (2, "b", 1, 0, None),
        (3, "b", 1, 1, None),
    ]


def test_a_rank_that_left_data_but_no_file_has_a_row(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    builder.step(1, 0, 0, 100)
    builder.span(1, 0, "forward", 10, 60)
    builder.publish()
    with open_run(builder.folder) as opened:
        rows = opened.ask("rank_list").to_pylist()
    assert [(row["rank"], row["host"], row["pp"]) for row in rows] == [(1, "", None)]


def test_rank_waits_are_means_per_step(run):
    rows = run.ask("rank_waits", step_min=1).to_pylist()
    assert [row["rank"] for row in rows] == [0, 1]
    assert [row["num_steps"] for row in rows] == [2, 2]
    assert [row["wait_ms"] for row in rows] == pytest.approx([0.02, 0.0])
    assert [row["wait_caused_ms"] for row in rows] == pytest.approx([0.0, 0.02])

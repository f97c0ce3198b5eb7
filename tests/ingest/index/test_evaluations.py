"""Evaluations between steps, and what they leave of the steps around them."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.ingest.index.rollup_cells import cells, us
from tests.runs_builder import T0, RunBuilder


@pytest.fixture
def run(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    builder.rank_files()
    for rank in range(2):
        for step, (begin, end) in enumerate(((0, 100), (100, 600), (600, 700))):
            builder.step(rank, step, begin, end)
            builder.span(rank, step, "forward", end - 90, end - 10)
    return builder


def evaluated(run, **values):
    """Each step takes 100 us; before step 1 there are 400 us of evaluation."""
    for rank in range(2):
        run.span(rank, 1, "evaluation", 110, 510, **{"track": "evaluation", **values})
        for begin in (120, 220, 320):
            run.span(rank, 1, "forward", begin, begin + 80)
            run.span(rank, 1, "data_wait", begin - 10, begin)
            run.span(rank, 1, "tp_comm", begin + 10, begin + 20 + 10 * rank, depth=1)


def test_a_step_is_not_longer_by_an_evaluation_before_it(run):
    evaluated(run)
    run.publish()
    for rank in range(2):
        rows = [cells(run.folder)[rank, step] for step in range(3)]
        assert [us(row, "window")[0] for row in rows] == [100, 100, 100]
        assert [us(row, "compute", "comm", "data_wait") for row in rows] == [[80, 0, 0]] * 3
        assert [us(row, "covered")[0] for row in rows] == [80, 80, 80]
        assert [row["num_spans"] for row in rows] == [1, 2, 1]


def test_its_time_is_the_row_of_its_kind(run):
    evaluated(run)
    run.publish()
    with open_run(run.folder) as opened:
        found = opened.sql("SELECT step, time_ns FROM kind_rollup WHERE kind = 'evaluation'")
    assert found.to_pylist() == [{"step": 1, "time_ns": 400_000}] * 2


def test_a_checkpoint_saved_meanwhile_is_no_evaluation(run):
    evaluated(run)
    run.span(0, 1, "checkpoint", 410, 450)
    run.publish()
    row = cells(run.folder)[0, 1]
    assert us(row, "window", "other") == [140, 40]


@pytest.mark.parametrize("depth", [0, 1])
def test_a_step_does_not_wait_in_collectives_of_an_evaluation(run, depth):
    """Depth 1: the job has a span of its own around all steps."""
    evaluated(run, depth=depth)
    run.group(7, [0, 1], "tp")
    for rank in range(2):
        run.add("clocks", rank, -1, ts_ns=T0)
        for seq, begin in enumerate((130, 530)):
            run.collective(rank, 1, 7, seq, begin + 20 * rank, begin + 30)
    run.publish()
    cells(run.folder)
    with open_run(run.folder) as opened:
        found = opened.sql(
            "SELECT rank, num_instances, wait_ns FROM collective_rollup ORDER BY rank"
        )
    assert [tuple(row.values()) for row in found.to_pylist()] == [(0, 1, 20_000), (1, 1, 0)]


def test_one_that_arrives_in_a_later_file_changes_the_steps_before_it(run):
    run.publish()
    assert us(cells(run.folder)[0, 1], "window") == [500]
    evaluated(run)
    run.publish()
    assert us(cells(run.folder)[0, 1], "window") == [100]


def test_nested_evaluations_count_once(run):
    evaluated(run)
    run.span(0, 1, "evaluation", 120, 160, depth=1)
    run.span(0, 1, "evaluation", 200, 240, depth=1, track="evaluation")
    run.publish()
    assert us(cells(run.folder)[0, 1], "window") == [100]
    with open_run(run.folder) as opened:
        found = opened.sql("SELECT begin_ns, end_ns FROM evaluations WHERE rank = 0").to_pylist()
    assert found == [{"begin_ns": T0 + 110_000, "end_ns": T0 + 510_000}]


def test_one_that_is_published_before_the_one_around_it_is_part_of_that(run):
    run.span(0, 1, "evaluation", 200, 240, depth=1)
    run.publish()
    cells(run.folder)
    run.span(0, 1, "evaluation", 110, 510)
    run.publish()
    cells(run.folder)
    with open_run(run.folder) as opened:
        found = opened.sql("SELECT begin_ns, end_ns FROM evaluations").to_pylist()
    assert found == [{"begin_ns": T0 + 110_000, "end_ns": T0 + 510_000}]


def test_a_kind_of_a_newer_schema_is_work_of_the_host(run):
    run.span(0, 2, "of_a_newer_schema", 600, 605)
    run.publish()
    assert us(cells(run.folder)[0, 2], "compute", "other") == [80, 5]


@pytest.mark.parametrize("question", ["late_counts", "collective_ops", "whatif_spans"])
def test_answers_about_steps_leave_out_what_runs_in_an_evaluation(run, question):
    def asked():
        run.publish()
        with open_run(run.folder) as opened:
            return sorted(opened.ask(question).to_pylist(), key=str)

    run.group(7, [0, 1], "tp")
    for rank in range(2):
        run.add("clocks", rank, -1, ts_ns=T0)
        run.collective(rank, 1, 7, 0, 530 + 5 * rank, 560)
    before = asked()
    evaluated(run)
    for rank in range(2):
        run.collective(rank, 1, 7, 1, 130 + 20 * rank, 170)
    assert before
    assert asked() == before

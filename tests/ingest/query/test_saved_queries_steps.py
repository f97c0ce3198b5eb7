"""The questions about the run, its steps and its ranks: rows in, table out."""

from __future__ import annotations

import random
import shutil
import statistics

import pytest

from ingest.run import open_run
from sample_traces import RECORDED
from tests.ingest.query.late_rank import NUM_STEPS, SLOW, by_rank, one
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout


def test_run_summary(run):
    row = one(run, "run_summary")
    assert (row["world_size"], row["num_ranks"], row["num_hosts"]) == (8, 8, 1)
    assert (row["first_step"], row["last_step"], row["num_steps"]) == (0, 4, 5)
    assert row["num_spans"] == 8 * NUM_STEPS * 4 + 1
    assert row["ended_ns"] == T0 + 600 * US


def test_run_card(run):
    row = one(run, "run_card")
    assert (row["num_attempts"], row["attempt"], row["world_size"]) == (1, 0, 8)
    assert (row["num_ranks"], row["num_hosts"], row["num_open"]) == (8, 1, 0)
    assert (row["first_step"], row["last_step"], row["num_steps"]) == (0, 4, 5)
    assert row["step_ms"] == pytest.approx(0.1)
    assert row["ended_ns"] == T0 + 600 * US
    assert (row["num_failed"], row["num_stopped"], row["error"]) == (0, 0, None)


def test_one_long_step_at_the_end_is_not_the_step_time_of_the_run(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    for step, end_us in enumerate((100, 200, 300, 9000)):
        builder.step(0, step, 100 * step, end_us)
    builder.publish()
    with open_run(builder.folder) as run:
        assert one(run, "run_card")["step_ms"] == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["healthy", "slow_rank"])
def test_the_list_of_runs_and_the_steps_have_one_step_time(name, tmp_path):
    """Also where pipeline groups differ: a step is as long as the slowest of them."""
    with open_run(shutil.copytree(RECORDED / name, tmp_path / name)) as run:
        newest = run.ask("steps", step_min=0).column("step_ms").drop_null().to_pylist()[-5:]
        assert one(run, "run_card")["step_ms"] == pytest.approx(statistics.median(newest))


def test_run_card_of_a_job_that_failed_and_runs_again(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    builder.step(0, 3, 0, 100)
    builder.publish()
    end = {"ts_ns": T0 + 200 * US, "status": "failed", "error": "out of memory"}
    builder.rank_files(end=end)
    with open_run(builder.folder) as opened:
        row = one(opened, "run_card")
        assert (row["num_failed"], row["failed_rank"], row["error"]) == (2, 0, "out of memory")
    builder.rank_files(attempt=1)
    with open_run(builder.folder) as opened:
        row = one(opened, "run_card")
        assert (row["num_attempts"], row["attempt"], row["num_open"]) == (2, 1, 2)
        assert (row["ended_ns"], row["num_failed"], row["oldest_seen_ns"]) == (None, 0, T0)
        assert row["num_steps"] == 1


def test_steps(run):
    rows = run.ask("steps", step_min=1, step_max=2).to_pylist()
    assert [(row["step"], row["step_ms"], row["loss"]) for row in rows] == [
        (1, 0.1, 1.0),
        (2, 0.1, 0.0),
    ]
    assert rows[0]["tokens"] == 800  # every replica once
    assert rows[0]["tokens_per_s"] == pytest.approx(800 / 1e-4)
    assert rows[0]["flops"] == 8e6


def test_step_time_of_the_job_is_the_slowest_pipelines(tmp_path):
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, dp=2))
    builder.rank_files()
    for rank, dur in enumerate((100, 140, 110, 150)):  # pp 0: 0, 1; pp 1: 2, 3; dp 0: 0, 2
        builder.step(rank, 0, 0, dur)
    builder.publish()
    with open_run(builder.folder) as run:
        assert one(run, "steps")["step_ms"] == pytest.approx(0.145)


def test_step_times(run):
    rows = run.ask("step_times", rank=SLOW, step_min=1, step_max=1).to_pylist()
    assert len(rows) == 1
    expected = {"step_ms": 0.1, "compute_ms": 0.07, "exposed_comm_ms": 0.01, "data_wait_ms": 0.01}
    assert {key: rows[0][key] for key in expected} == pytest.approx(expected)
    assert rows[0]["not_visible_ms"] == pytest.approx(0.01)
    assert rows[0]["cpu_ms"] == pytest.approx(0.07)


def test_slowest_ranks(run):
    rows = run.ask("slowest_ranks", top=2).to_pylist()
    assert rows[0]["rank"] == SLOW
    assert rows[0]["slowdown"] == pytest.approx(70 / 50)
    assert rows[0]["peers"] == "dp"
    assert rows[0]["measure"] == "cpu"
    assert rows[0]["beyond_noise"]
    assert not rows[1]["beyond_noise"]
    assert rows[1]["slowdown"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("layout", "peers"),
    [
        (ParallelLayout.from_sizes(pp=2, dp=4), "dp"),
        (ParallelLayout.from_sizes(pp=2, dp=2, tp=2), "stage"),
        (ParallelLayout.from_sizes(pp=4, dp=2), "own past"),
    ],
)
def test_peers_are_replicas_else_the_stage_else_the_own_past(tmp_path, layout, peers):
    builder = RunBuilder(tmp_path / "run", 8, layout)
    builder.rank_files()
    for step in range(6):
        for rank in range(8):
            builder.step(rank, step, step * 100, step * 100 + 100)
            slow = 1.5 if rank == 3 and step == 5 else 1.0
            builder.span(rank, step, "forward", step * 100, step * 100 + 40 * slow)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("slowest_ranks", step_min=5).to_pylist()
        assert (rows[0]["rank"], rows[0]["peers"], rows[0]["measure"]) == (3, peers, "wall")
        assert rows[0]["slowdown"] == pytest.approx(1.5)
        assert {row["slowdown"] for row in rows[1:]} == {1.0}


@pytest.mark.parametrize("count", range(2, 9))
def test_the_median_of_the_others(run, count):
    rng = random.Random(count)
    for _ in range(5):
        values = [rng.randint(0, 4) for _ in range(count)]
        rows = run.execute(
            "SELECT median_of_others(own, middle(list_sort($v::DOUBLE[]))) AS m"
            " FROM (SELECT unnest($v::DOUBLE[]) AS own)",
            {"v": values},
        ).to_pylist()
        others = [values[:i] + values[i + 1 :] for i in range(count)]
        assert [row["m"] for row in rows] == [statistics.median(rest) for rest in others]


def test_heat_map(run):
    def value(metric, rank):
        rows = run.ask("heat_map", metric=metric, step_min=3, step_max=3).to_pylist()
        return {row["rank"]: row["value_ms"] for row in rows}[rank]

    assert value("step_time", 0) == pytest.approx(0.1)
    assert value("compute", SLOW) == pytest.approx(0.07)
    assert value("wait_caused", SLOW) == pytest.approx(0.020 * 7)
    assert value("wait", 0) == pytest.approx(0.021)
    assert value("not_visible", 0) == pytest.approx(0.01)
    assert run.ask("heat_map", metric="beauty").num_rows == 0


def test_grid(run):
    row = by_rank(run, "grid")[SLOW]
    assert (row["dp"], row["pp"], row["num_steps"]) == (SLOW, None, NUM_STEPS)
    assert row["wait_caused_ms"] == pytest.approx(0.020 * 7 * NUM_STEPS)
    assert row["not_visible_ratio"] == pytest.approx(0.1)


def test_rank_timeline(run):
    window = {"from_ns": T0 + 105 * US, "to_ns": T0 + 155 * US}
    rows = run.ask("rank_timeline", rank=1, **window).to_pylist()
    assert [row["kind"] for row in rows] == ["data_wait", "forward", "dp_comm"]
    assert rows[2]["coll_seq"] == 1
    assert run.ask("rank_timeline", rank=1, step=2).num_rows == 4


def test_step_breakdown(run):
    rows = run.ask("step_breakdown", rank=0, step_min=2, step_max=2).to_pylist()
    assert {row["kind"]: round(row["time_ms"] * 1000) for row in rows} == {
        "forward": 39,
        "dp_comm": 31,
        "optimizer": 10,
        "data_wait": 10,
        "checkpoint": 10,
    }


def test_coverage(run):
    rows = by_rank(run, "coverage")
    assert rows[1]["covered_ratio"] == pytest.approx(0.9)
    assert rows[1]["eager_ratio"] == pytest.approx(0.9)
    assert rows[0]["not_visible_ratio"] == pytest.approx(0.1 - 0.1 / NUM_STEPS)


def test_hook_cost(run):
    row = by_rank(run, "hook_cost")[0]
    assert row["cost_ratio"] == pytest.approx(0.01)
    assert row["self_ms_per_step"] == pytest.approx(0.001)


def test_data_wait(run):
    row = by_rank(run, "data_wait", top=3)[0]
    assert row["data_wait_ms"] == pytest.approx(0.01)
    assert row["wait_ratio"] == pytest.approx(0.1)


def test_bubble(run):
    rows = by_rank(run, "bubble", step_min=0, step_max=1)
    assert rows[1]["bubble_ms"] == pytest.approx(0.02)
    assert rows[1]["waiting_ms"] == pytest.approx(0.02)
    assert rows[1]["schedule_ms"] == pytest.approx(0)
    assert rows[SLOW]["bubble_ms"] == pytest.approx(0)


def test_memory(run):
    row = one(run, "memory", rank=3, step_min=2, step_max=2)
    assert row["allocated_mb"] == 2
    assert row["peak_mb"] is None


def test_marks(run):
    row = one(run, "marks")
    assert (row["rank"], row["step"], row["kind"], row["text"]) == (5, 1, "fault", "slow")


def test_data_age(run):
    arrived = run.sql("SELECT max(arrived_ns) AS t FROM arrivals WHERE rank = 3").to_pylist()
    row = by_rank(run, "data_age", now_ns=arrived[0]["t"] + 2 * 10**9)[3]
    assert row["data_age_s"] == pytest.approx(2)
    assert row["status"] == "finished"

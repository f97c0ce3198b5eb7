"""The questions behind diagnosis, the overview's numbers and the strip: rows in, table out."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """dp 2 x tp 2, 3 steps of 100 us: data 10, forward 40 (rank 1: 60), tp all-reduce until 80,
    optimizer 10, the last 10 not recorded. Rank 0 saves in step 1; step 3 is begun only.
    """
    layout = ParallelLayout.from_sizes(dp=2, tp=2)
    builder = RunBuilder(tmp_path_factory.mktemp("overview") / "run", 4, layout)
    builder.group(7, [0, 1], "tp")
    builder.group(8, [2, 3], "tp")
    for step in range(3):
        t = step * 100.0
        for rank in range(4):
            ready = t + (70 if rank == 1 else 50)
            builder.step(rank, step, t, t + 100)
            builder.span(rank, step, "data_wait", t, t + 10)
            builder.span(rank, step, "forward", t + 10, ready, cpu_ns=30_000)
            group = 7 if rank < 2 else 8
            builder.span(rank, step, "tp_comm", ready, t + 80, group_id=group, coll_seq=step)
            builder.span(rank, step, "optimizer", t + 80, t + 90, cpu_ns=10_000)
            builder.collective(rank, step, group, step, ready, t + 80)
    builder.span(0, 1, "checkpoint", 190, 196)
    builder.span(0, 3, "forward", 310, 320)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as opened:
        yield opened


def test_rank_work(run):
    rows = run.ask("rank_work", step_min=1, step_max=1).to_pylist()
    assert [(r["rank"], r["step"]) for r in rows] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [r["compute_ms"] for r in rows] == pytest.approx([0.05, 0.07, 0.05, 0.05])
    assert [r["cpu_ms"] for r in rows] == pytest.approx([0.04] * 4)
    assert [r["wait_caused_ms"] for r in rows] == pytest.approx([0, 0.02, 0, 0])
    assert [r["wait_ms"] for r in rows] == pytest.approx([0.02, 0, 0, 0])
    steps = {r["step"] for r in run.ask("rank_work").to_pylist()}
    assert steps == {0, 1, 2}  # the begun one is not there


def test_rank_places(run):
    rows = run.ask("rank_places").to_pylist()
    assert [(r["rank"], r["host"], r["dp"], r["tp"]) for r in rows] == [
        (0, "h0", 0, 0),
        (1, "h0", 0, 1),
        (2, "h0", 1, 0),
        (3, "h0", 1, 1),
    ]
    assert {r["world_size"] for r in rows} == {4}


def test_waits_by_group(run):
    (row,) = run.ask("waits_by_group").to_pylist()  # nobody waited in the other group
    assert (row["rank"], row["axis"], row["ranks"]) == (1, "tp", [0, 1])
    assert row["wait_caused_ms"] == pytest.approx(0.06)
    (row,) = run.ask("waits_by_group", step_min=2, step_max=2).to_pylist()
    assert row["wait_caused_ms"] == pytest.approx(0.02)


def test_job_shares(run):
    rows = run.ask("job_shares").to_pylist()
    assert [r["step"] for r in rows] == [0, 1, 2]
    assert rows[0]["num_ranks"] == 4
    assert rows[0]["compute_ratio"] == pytest.approx((50 + 70 + 50 + 50) / 400)
    assert rows[0]["data_wait_ratio"] == pytest.approx(0.1)
    assert rows[0]["exposed_comm_ratio"] == pytest.approx((30 + 10 + 30 + 30) / 400)
    assert rows[0]["tp_ratio"] == rows[0]["exposed_comm_ratio"]
    assert rows[0]["dp_ratio"] == 0
    assert rows[0]["bubble_ratio"] == pytest.approx(20 / 400)  # rank 0 waits 20 us for rank 1
    assert rows[0]["waiting_ratio"] == pytest.approx(20 / 400)
    assert rows[0]["bubble_other_ratio"] == 0
    assert rows[1]["bubble_other_ratio"] == pytest.approx(6 / 400)  # a checkpoint of 6 us
    assert rows[0]["not_visible_ratio"] == pytest.approx(0.1)
    assert rows[1]["not_visible_ratio"] == pytest.approx(34 / 400)  # the checkpoint is seen


def test_in_a_step_that_some_have_not_finished_only_the_others_count(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    for step in range(2):
        for rank in range(2):
            at = step * 100.0
            if (rank, step) != (1, 1):
                builder.step(rank, step, at, at + 100)
            builder.span(rank, step, "forward", at, at + 50)
            builder.span(rank, step, "tp_comm", at + 50, at + 70 + 20 * rank)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("job_shares").to_pylist()
    assert [row["num_ranks"] for row in rows] == [2, 1]
    assert [row["tp_ratio"] for row in rows] == pytest.approx([(20 + 40) / 200, 20 / 100])


def test_where_time_goes_adds_up_to_the_step(run):
    rows = run.ask("where_time_goes").to_pylist()
    parts = [
        "compute_ms",
        "data_wait_ms",
        "tp_ms",
        "pp_ms",
        "dp_ms",
        "ep_ms",
        "other_comm_ms",
        "waiting_ms",
        "schedule_ms",
        "other_ms",
        "not_visible_ms",
    ]
    for row in rows:
        assert sum(row[part] for part in parts) == pytest.approx(row["step_ms"])
    assert rows[0]["waiting_ms"] == pytest.approx(0.02)
    assert rows[0]["tp_ms"] == pytest.approx(0.01)
    assert rows[0]["other_ms"] == pytest.approx(0.006 / 3)
    assert rows[1]["waiting_ms"] == 0
    assert rows[0]["bubble_known"]
    assert {row["num_steps"] for row in rows} == {3}


def test_without_aligned_clocks_communication_keeps_its_waiting(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2), hosts=["a", "b"])
    builder.group(7, [0, 1], "tp")
    for rank in range(2):
        builder.step(rank, 0, 0, 100)
        builder.span(rank, 0, "forward", 0, 50 + 10 * rank)
        builder.span(rank, 0, "tp_comm", 50 + 10 * rank, 90, group_id=7, coll_seq=0)
        builder.collective(rank, 0, 7, 0, 50 + 10 * rank, 90)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("where_time_goes").to_pylist()
        (shares,) = run.ask("job_shares").to_pylist()
    assert [row["tp_ms"] for row in rows] == pytest.approx([0.04, 0.03])
    assert [row["bubble_known"] for row in rows] == [False, False]
    assert shares["bubble_ratio"] is None


@pytest.mark.parametrize("axis", ["world", "mixed", "unknown", "etp"])
def test_waiting_is_taken_out_of_the_groups_of_every_axis(tmp_path, axis):
    builder = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    builder.rank_files()
    builder.group(1, [0, 1], "dp")
    builder.group(2, [0, 1], axis)
    for rank, late_us in enumerate((0, 90)):
        builder.step(rank, 0, 0, 1000)
        builder.span(rank, 0, "dp_comm", 100, 200)
        builder.collective(rank, 0, 1, 0, 100, 200)
        builder.span(rank, 0, "forward", 200, 300 + late_us)
        builder.span(rank, 0, "other_comm", 300 + late_us, 400)
        builder.collective(rank, 0, 2, 0, 300 + late_us, 400)
    builder.publish()
    with open_run(builder.folder) as run:
        row = run.ask("where_time_goes").to_pylist()[0]
    moved = (row["dp_ms"], row["other_comm_ms"], row["waiting_ms"])
    assert moved == pytest.approx((0.1, 0.01, 0.09), abs=1e-4)


def test_hook_cost_by_step(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    for rank in range(2):
        for beat, (step, own_us) in enumerate([(-1, 0), (0, 10), (1, 40 if rank else 20)]):
            builder.add("heartbeats", rank, step, ts_ns=T0 + beat * 1000 * US, self_ns=own_us * US)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("hook_cost_by_step").to_pylist()
        later = run.ask("hook_cost_by_step", step_min=1).to_pylist()
        ends = run.ask("hook_cost", step_min=1).to_pylist()
    assert [(r["step"], r["since_step"], r["num_beats"]) for r in rows] == [(0, -1, 2), (1, 0, 2)]
    assert [r["cost_ratio"] for r in rows] == pytest.approx([20 / 2000, (10 + 30) / 2000])
    assert later == rows[1:]
    assert [r["cost_ratio"] for r in ends] == pytest.approx([10 / 1000, 30 / 1000])


def test_hook_cost_has_the_files_that_a_host_publishes(tmp_path):
    builder = RunBuilder(tmp_path / "run", 4)
    builder.hosts = ["a", "a", "b", "b"]
    for rank in range(4):
        for second in (0, 10):
            own = {"files": 3 * second} if rank < 2 else {"files": 5, "host_files": 8 + second // 5}
            row = {"ts_ns": T0 + second * 10**9, "self_ns": 0, **own}
            builder.add("heartbeats", rank, second, **row)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("hook_cost").to_pylist()
    assert [row["host_files_per_s"] for row in rows] == pytest.approx([6.0, 6.0, 0.2, 0.2])


def test_hook_cost_by_source(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    for count, (step, main_us, drain_us) in enumerate([(-1, 10, 5), (3, 30, 5), (9, 110, 25)]):
        spent = [("main", "modules", main_us), ("trace_hooks drain", "writing", drain_us)]
        spent += [("main", "statistics", 25)] if count == 2 else []  # it began later
        for thread, source, own_us in spent:
            builder.add(
                "hook_costs",
                1,
                step,
                ts_ns=T0 + count * 1000 * US,
                thread=thread,
                source=source,
                cpu_ns=own_us * US,
            )
    builder.add("hook_costs", 0, 3, ts_ns=T0, thread="main", source="modules", cpu_ns=5 * US)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("hook_cost_by_source").to_pylist()
        later = run.ask("hook_cost_by_source", step_min=4).to_pylist()
    assert [tuple(row.values())[:3] for row in rows] == [
        (1, "main", "modules"),
        (1, "main", "statistics"),
        (1, "trace_hooks drain", "writing"),
    ]
    assert [row["self_ms"] for row in rows] == pytest.approx([0.1, 0.025, 0.02])
    assert [row["self_ms_per_step"] for row in rows] == pytest.approx([0.01, 0.0025, 0.002])
    assert [row["share"] for row in rows] == pytest.approx([100 / 145, 25 / 145, 20 / 145])
    assert [row["self_ms"] for row in later] == pytest.approx([0.08, 0.025, 0.02])


def test_checkpoint_steps(run):
    (row,) = run.ask("checkpoint_steps").to_pylist()
    assert (row["step"], row["num_ranks"]) == (1, 1)
    assert row["checkpoint_ms"] == pytest.approx(0.006)

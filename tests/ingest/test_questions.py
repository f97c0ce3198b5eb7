"""Every ready question: rows in, table out."""

from __future__ import annotations

import json
import random
import statistics

import pytest

from ingest.errors import UserError
from ingest.questions import all_questions, parse_question
from ingest.run_files import DECODER_SIZES
from ingest.store import open_run
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import publish_json, rank_file_name

OF_OTHER_RUNS = ("data_gaps", "end_lateness", "ranks_without_steps")
"""Questions that have no row in a run with steps and spans; tests of their own ask them."""
GOES_WITH = {
    "rank_timeline": {"rank": 1},
    "step_breakdown": {"rank": 0},
    "collective_members": {"group_id": 7, "seq": 1},
    "data_age": {"now_ns": T0},
    "rank_cells": {"metric": "compute"},
    "window_spans": {"ranks": "0,1"},
    "window_waits": {"ranks": "0,1"},
    "step_windows": {"ranks": "0,1"},
    "step_extent": {"ranks": "0,1"},
    "step_shares": {"ranks": "0,1"},
    "span_search": {"ranks": "0,1", "text": "X"},
    "collective_bins": {"ranks": "0,1", "begin_ns": T0, "end_ns": T0 + 100 * US, "bin_ns": US},
    "collective_extent": {"ranks": "0,1"},
    "collective_search": {"ranks": "0,1", "text": "ALL_"},
    "ranks_without_steps": {"ranks": "0,99"},
    "window_collectives": {"ranks": "0,1"},
}
"""Values of required parameters."""

GIVEN_BY_RUN = {"run", "clock"} | {f"model_{name}" for name in DECODER_SIZES}
"""Values that run.json gives."""

NUM_STEPS = 5
SLOW = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """dp 8 (so that every rank has peers), 5 steps of 100 us; rank 5 computes 20 us longer and the
    others wait for it in the all-reduce; rank 0 saves a checkpoint in step 2.
    """
    builder = RunBuilder(
        tmp_path_factory.mktemp("asked") / "run", 8, ParallelLayout.from_sizes(dp=8)
    )
    builder.group(7, list(range(8)), "dp")
    for step in range(NUM_STEPS):
        t = step * 100.0
        for rank in range(8):
            ready = t + (70 if rank == SLOW else 50 if rank else 49)
            builder.step(
                rank, step, t, t + 100, tokens=100.0, flops=8e6, loss=2.0 - step, lr=0.1 * step
            )
            builder.span(rank, step, "data_wait", t, t + 10)
            builder.span(rank, step, "forward", t + 10, ready, cpu_ns=int(ready - t - 10) * US)
            builder.span(rank, step, "dp_comm", ready, t + 80, group_id=7, coll_seq=step)
            builder.span(rank, step, "optimizer", t + 80, t + 90, cpu_ns=10 * US)
            builder.collective(rank, step, 7, step, ready, t + 80, num_bytes=1000)
            builder.add("memory", rank, step, ts_ns=T0 + int(t + 90) * US, allocated=step * 10**6)
            builder.add(
                "heartbeats", rank, step, ts_ns=T0 + int(t) * US, self_ns=step * 1000, dropped=0
            )
    builder.span(0, 2, "checkpoint", 290, 300)
    builder.add("marks", 5, 1, ts_ns=T0 + 5, kind="fault", text="slow")
    builder.rank_files(end={"ts_ns": T0 + 600 * US, "status": "finished", "error": None})
    builder.publish()
    with open_run(builder.folder) as opened:
        yield opened


def one(run, name, **params):
    rows = run.ask(name, **params).to_pylist()
    assert len(rows) == 1
    return rows[0]


def by_rank(run, name, **params):
    return {row["rank"]: row for row in run.ask(name, **params).to_pylist()}


@pytest.mark.parametrize("name", all_questions())
def test_the_header_names_the_columns(run, name):
    answer = run.ask(name, **GOES_WITH.get(name, {}))
    assert [column for column, _ in all_questions()[name].columns] == answer.column_names
    assert (answer.num_rows > 0) == (name not in OF_OTHER_RUNS)


@pytest.fixture(scope="module")
def empty_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty") / "run"
    RunBuilder(folder, 2)
    with open_run(folder) as opened:
        yield opened


@pytest.mark.parametrize("name", all_questions())
def test_a_run_without_data_has_empty_answers(empty_run, name):
    assert empty_run.ask(name, **GOES_WITH.get(name, {})).num_rows == 0


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
    assert row["last_step_ms"] == pytest.approx(0.1)
    assert row["ended_ns"] == T0 + 600 * US
    assert (row["num_failed"], row["num_stopped"], row["error"]) == (0, 0, None)


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
        (1, 0.1, 1.0), (2, 0.1, 0.0),
    ]  # fmt: skip
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
        rows = run.sql(
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
        "forward": 39, "dp_comm": 31, "optimizer": 10, "data_wait": 10, "checkpoint": 10,
    }  # fmt: skip


def test_collective_members(run):
    rows = {
        row["rank"]: row for row in run.ask("collective_members", group_id=7, seq=1).to_pylist()
    }
    assert rows[SLOW]["is_last"]
    assert rows[SLOW]["wait_caused_us"] == pytest.approx(20 * 7)
    assert rows[0]["wait_us"] == pytest.approx(21)
    assert {row["transfer_us"] for row in rows.values()} == {10.0}
    assert sum(row["wait_caused_us"] for row in rows.values()) == pytest.approx(140)


def two_hosts(folder, offset_ns=None, members=(0, 1)):
    builder = RunBuilder(folder, 2, hosts=["a", "b"])
    builder.rank_files()
    builder.group(7, [0, 1], "dp")
    for rank in members:
        builder.step(rank, 0, 0, 100)
        builder.collective(rank, 0, 7, 0, 10 + rank, 50)
    if offset_ns is not None:
        builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=offset_ns, err_ns=10, drift_ppb=0)
    builder.publish()
    return open_run(builder.folder)


def test_nobody_is_named_without_aligned_clocks(tmp_path):
    with two_hosts(tmp_path / "run") as run:
        rows = run.ask("collective_members", group_id=7, seq=0).to_pylist()
        assert {row["reason"] for row in rows} == {"a member's clock is not aligned"}
        assert {row["wait_us"] for row in rows} == {None}
        assert not any(row["is_last"] for row in rows)
        assert run.ask("late_ranks").num_rows == 0
        assert by_rank(run, "clock_error")[1]["method"] is None


def test_alignment_can_turn_the_verdict(tmp_path):
    with two_hosts(tmp_path / "run", offset_ns=-5_000) as run:
        rows = by_rank(run, "collective_members", group_id=7, seq=0)
        assert rows[0]["is_last"]
        assert rows[1]["wait_us"] == pytest.approx(4)
        assert rows[1]["aligned_start_ns"] == T0 + 6 * US
        assert [row["rank"] for row in run.ask("late_ranks").to_pylist()] == [0]
        assert by_rank(run, "clock_error")[1]["err_us"] == pytest.approx(0.01)


def test_drift_moves_the_offset(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2, hosts=["a", "b"])
    builder.rank_files()
    for rank in range(2):
        builder.collective(rank, 0, 7, 0, 2_000_000, 2_000_050)
    # 2 s after the estimate a drift of 1000 ppb has made 2 us
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=0, drift_ppb=1000)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = by_rank(run, "collective_members", group_id=7, seq=0)
        assert rows[1]["aligned_start_ns"] - rows[0]["aligned_start_ns"] == 2000


def test_nobody_is_named_while_a_member_is_missing(tmp_path):
    with two_hosts(tmp_path / "run", offset_ns=0, members=(1,)) as run:
        row = one(run, "collective_members", group_id=7, seq=0)
        assert row["reason"] == "members are missing: 1 of 2"
        assert row["wait_us"] is None
        assert one(run, "collectives_by_group")["num_open"] == 1


def test_sends_and_receives_pair_by_source_destination_tag_and_number(tmp_path):
    builder = RunBuilder(tmp_path / "run", 3)
    builder.rank_files()
    builder.group(9, [0, 1, 2], "pp")
    for seq in range(2):  # 0 -> 1 and 1 -> 2, both with numbers 0 and 1
        t = seq * 100
        p2p = {"group_id": 9, "seq": seq, "tag": 0}
        builder.collective(0, 0, start_us=t + 10, end_us=t + 20, op="send", peer=1, **p2p)
        builder.collective(1, 0, start_us=t, end_us=t + 21, op="recv", peer=0, **p2p)
        builder.collective(1, 0, start_us=t + 30, end_us=t + 50, op="send", peer=2, **p2p)
        builder.collective(2, 0, start_us=t + 44, end_us=t + 51, op="recv", peer=1, **p2p)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.ask("collective_members", group_id=9, seq=1).to_pylist()
        assert [(row["src"], row["dst"], row["rank"], row["wait_us"]) for row in rows] == [
            (0, 1, 1, 10.0), (0, 1, 0, 0.0), (1, 2, 1, 14.0), (1, 2, 2, 0.0),
        ]  # fmt: skip
        assert run.ask("collective_members", group_id=9, seq=1, src=1).num_rows == 2
        assert run.ask("late_ranks").num_rows == 0
        caused = {
            r["rank"]: r["wait_caused_ms"] for r in run.ask("late_ranks", axis="pp").to_pylist()
        }
        assert caused == pytest.approx({0: 0.020, 2: 0.028})


def test_late_ranks(run):
    row = one(run, "late_ranks")
    assert row["rank"] == SLOW
    assert row["wait_caused_ms"] == pytest.approx(0.020 * 7 * NUM_STEPS)
    assert row["lost_ratio"] == pytest.approx(0.020 * 7 / (8 * 0.1))
    assert row["share"] == 1
    assert run.ask("late_ranks", axis="tp").num_rows == 0
    assert run.ask("late_ranks", axis="dp").num_rows == 1


def test_waits_for_the_schedule_name_nobody_unless_asked(tmp_path):
    """pp 2 x tp 2. Rank 3 comes late to its own stage; both of stage 1 always come last across."""
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, tp=2))
    builder.rank_files()
    groups = {7: ([0, 1], "tp"), 8: ([2, 3], "tp"), 9: ([0, 2], "pp"), 10: ([0, 1, 2, 3], "world")}
    for group_id, (ranks, axis) in groups.items():
        builder.group(group_id, ranks, axis)
        for rank in ranks:
            late = 5 if (group_id, rank) == (8, 3) else 30 if group_id > 8 and rank == 2 else 0
            builder.collective(rank, 0, group_id, 0, late, 50)
    for rank in range(4):
        builder.step(rank, 0, 0, 100)
    builder.publish()
    with open_run(builder.folder) as run:
        assert list(by_rank(run, "late_ranks")) == [3]
        assert by_rank(run, "late_ranks", axis="all")[2]["wait_caused_ms"] == pytest.approx(0.12)
        assert list(by_rank(run, "late_ranks", axis="world")) == [2]
        assert one(run, "time_lost")["wait_caused_ms"] == pytest.approx(0.005)
        assert one(run, "time_lost", axis="all")["worst_rank"] == 2
        assert by_rank(run, "grid")[2]["wait_caused_ms"] == pytest.approx(0.12)


def test_comm_by_axis(run):
    row = one(run, "comm_by_axis", rank=SLOW)
    assert (row["axis"], row["num_spans"], row["exposed_ratio"]) == ("dp", NUM_STEPS, 1.0)
    assert row["comm_ms"] == pytest.approx(0.01)


def test_collectives_by_group(run):
    row = one(run, "collectives_by_group", step_min=0, step_max=0)
    assert (row["name"], row["axis"], row["num_members"], row["num_open"]) == ("g7", "dp", 8, 0)
    assert row["wait_ms"] == pytest.approx(0.020 * 6 + 0.021)
    assert row["transfer_ms"] == pytest.approx(0.01)
    assert row["bandwidth_gb_s"] == pytest.approx(1000 * 2 * 7 / 8 / 10_000)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 2 * 3 / 4), ("all_gather", 3), ("reduce_scatter", 3 / 4),
        ("all_to_all", 3 / 4), ("broadcast", 1), ("reduce", 1), ("barrier", None),
        ("scatter", None),
    ],
)  # fmt: skip
def test_bytes_moved_follow_the_algorithm(run, op, factor):
    """num_bytes is a member's input: a quarter of all_gather's total, all of reduce_scatter's."""
    moved = run.sql("SELECT bus_bytes($op, 1000, 4) AS b", {"op": op}).to_pylist()[0]["b"]
    assert moved == (None if factor is None else pytest.approx(1000 * factor))


@pytest.mark.parametrize(("num_bytes", "members"), [(-1, 4), (0, 4), (10, 1), (10, None)])
def test_unknown_sizes_give_no_bandwidth(run, num_bytes, members):
    values = {"b": num_bytes, "n": members}
    assert run.sql("SELECT bus_bytes('all_reduce', $b, $n::INT) AS b", values).to_pylist() == [
        {"b": None}
    ]


def test_instances_without_a_size_do_not_dilute_the_bandwidth(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    builder.rank_files()
    builder.group(7, [0, 1], "dp")
    for rank in range(2):
        builder.collective(rank, 0, 7, 0, 0, 10, num_bytes=10_000)
        builder.collective(rank, 0, 7, 1, 20, 90, num_bytes=-1)
        builder.collective(rank, 0, 7, 2, 100, 150, op="barrier", num_bytes=0)
    builder.publish()
    with open_run(builder.folder) as run:
        assert one(run, "collectives_by_group")["bandwidth_gb_s"] == pytest.approx(1)
        rows = run.ask("collective_members", group_id=7, seq=0).to_pylist()
        assert [row["bandwidth_gb_s"] for row in rows] == [pytest.approx(1)] * 2


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


def test_throughput(run):
    row = run.ask("throughput", peak_tflops=0.1).to_pylist()[0]
    assert row["tokens_per_s"] == pytest.approx(800 / 1e-4)
    assert row["tflops_per_s"] == pytest.approx(8e6 / 1e-4 / 1e12)
    assert row["mfu_ratio"] == pytest.approx(8e6 / (1e-4 * 8 * 1e11))
    assert row["flops_from"] == "logged"
    without = run.ask("throughput").to_pylist()[0]
    assert (without["mfu_ratio"], without["peak_tflops"]) == (None, None)


DENSE = {"parameters": 1000, "layers": 2, "hidden": 8, "seq": 16}


def asked_throughput(folder, model, devices, **values):
    builder = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2), model=model)
    builder.rank_files()
    for rank, device in enumerate(devices):
        path = builder.folder / "ranks" / rank_file_name(0, rank)
        publish_json(json.loads(path.read_text()) | {"device": device}, path)
        builder.step(rank, 0, 0, 100, tokens=50.0)
    builder.publish()
    with open_run(builder.folder) as run:
        return one(run, "throughput", **values)


def test_flops_and_peak_come_from_the_model_and_the_devices(tmp_path):
    row = asked_throughput(tmp_path / "run", DENSE, ["NVIDIA A100-SXM4-80GB"] * 2)
    flops = 50 * (6 * 1000 + 12 * 2 * 8 * 16)
    assert row["flops_from"] == "model"
    assert row["tflops_per_s"] == pytest.approx(flops / 1e-4 / 1e12)
    assert row["mfu_ratio"] == pytest.approx(flops / (1e-4 * 2 * 312e12))


@pytest.mark.parametrize(
    "model",
    [
        None, [1], {}, {**DENSE, "experts": 8}, {**DENSE, "hidden": None}, {**DENSE, "seq": -1},
        {**DENSE, "layers": True}, {**DENSE, "parameters": 10**400},
        {**DENSE, "parameters": float("nan")}, {**DENSE, "parameters": "7B"},
    ],
)  # fmt: skip
def test_without_the_sizes_of_a_dense_decoder_there_are_no_flops(tmp_path, model):
    row = asked_throughput(tmp_path / "run", model, ["NVIDIA H200"] * 2)
    assert (row["tflops_per_s"], row["mfu_ratio"], row["flops_from"]) == (None, None, None)
    assert row["peak_tflops"] == 989


def test_one_unknown_device_leaves_the_utilisation_unknown(tmp_path):
    row = asked_throughput(tmp_path / "run", DENSE, ["NVIDIA A100-SXM4-80GB", "cpu"])
    assert (row["peak_tflops"], row["mfu_ratio"]) == (None, None)
    row = asked_throughput(tmp_path / "two", DENSE, ["cpu", "cpu"], peak_tflops=1)
    assert row["mfu_ratio"] is not None


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA A100-PCIE-40GB", 312), ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None), ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756), ("NVIDIA H100 NVL", None), ("NVIDIA H200 NVL", None),
        ("NVIDIA GB200", None), ("NVIDIA B200", 2250), ("AMD Instinct MI250X", 191.5),
        ("AMD Instinct MI300X", 1307), ("NVIDIA A1000", None), ("cpu", None), ("", None),
    ],
)  # fmt: skip
def test_peaks_of_devices(run, device, peak):
    answer = run.sql("SELECT peak_tflops_of($d) AS peak", {"d": device})
    assert answer.to_pylist() == [{"peak": peak}]


def test_goodput(run):
    row = one(run, "goodput")
    assert row["wall_s"] == pytest.approx(600e-6)
    assert row["checkpoint_s"] == pytest.approx(10e-6)
    assert row["productive_s"] == pytest.approx(490e-6)
    assert row["goodput_ratio"] == pytest.approx(490 / 600)


def test_goodput_tells_rewound_steps_apart(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    for attempt, steps in enumerate([(0, 1, 2), (1, 2, 3)]):
        builder.rank_files(attempt)
        for step in steps:
            at_ns = T0 + (attempt * 1000 + step * 100) * US
            builder.add("steps", 0, step, attempt, start_ns=at_ns, dur_ns=100 * US)
    builder.publish()
    with open_run(builder.folder) as run:
        first, second = run.ask("goodput").to_pylist()
        assert first["productive_s"] == pytest.approx(100e-6)
        assert first["rewound_s"] == pytest.approx(200e-6)
        assert (second["productive_s"], second["rewound_s"]) == (pytest.approx(300e-6), 0)


def test_data_age(run):
    arrived = run.sql("SELECT max(arrived_ns) AS t FROM arrivals WHERE rank = 3").to_pylist()
    row = by_rank(run, "data_age", now_ns=arrived[0]["t"] + 2 * 10**9)[3]
    assert row["data_age_s"] == pytest.approx(2)
    assert row["status"] == "finished"


def test_time_lost(run):
    row = run.ask("time_lost").to_pylist()[1]
    assert row["worst_rank"] == SLOW
    assert row["lost_ratio"] == pytest.approx(0.020 * 7 / (8 * 0.1))


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("nonsense", {}, "no question 'nonsense'; ask one of"),
        ("rank_timeline", {}, "needs rank"),
        ("rank_timeline", {"rank": "one"}, "rank is 'one'; give one int"),
        ("rank_timeline", {"rank": True}, "give one int"),
        ("steps", {"colour": 1}, "takes no 'colour'; it takes attempt, step_max, step_min"),
    ],
)
def test_a_wrong_question_is_one_sentence(run, name, values, says):
    with pytest.raises(UserError, match=says):
        run.ask(name, **values)


def test_values_are_never_sql(run):
    nasty = "x' OR 1=1; DROP TABLE files; --"
    assert run.ask("heat_map", metric=nasty).num_rows == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- Meaning.\n-- empty: never\nSELECT 1",
        "-- Meaning.\n-- column: a  b\n-- empty: never\n-- reads: nothing\nSELECT 1",
        "-- Meaning.\n-- param: x\n-- column: a  b\n-- empty: never\nSELECT 1",
    ],
)
def test_a_header_that_says_too_little_is_refused(text):
    with pytest.raises(ValueError, match=r"q\.sql"):
        parse_question("q", text)


def test_every_value_in_the_sql_is_declared():
    for asked in all_questions().values():
        declared = {parameter.name for parameter in asked.parameters} | set(asked.reads)
        assert asked.used <= declared | GIVEN_BY_RUN, asked.name
        assert {parameter.name for parameter in asked.parameters} <= asked.used, asked.name

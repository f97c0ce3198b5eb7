"""The questions about what the time of the devices goes to: disjoint parts, known exactly."""

from __future__ import annotations

import pytest

from diagnosis.mfu.parts import NAMES
from ingest.run import open_run
from tests.mfu_runs import PARTS_MS, mfu_run
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


@pytest.fixture(scope="module")
def efficient_run(tmp_path_factory):
    with open_run(mfu_run(tmp_path_factory.mktemp("mfu") / "run")) as opened:
        yield opened


def parts_of(row):
    return {name: row[f"{name}_ms"] for name in NAMES if row[f"{name}_ms"]}


def test_parts_of_a_step_are_means_over_the_ranks(efficient_run):
    rows = efficient_run.ask("device_time").to_pylist()
    assert [row["step"] for row in rows] == [0, 1]
    for row in rows:
        assert parts_of(row) == pytest.approx({n: sum(ms) / 2 for n, ms in PARTS_MS.items()})
        assert row["step_ms"] == pytest.approx(100)
        assert (row["gc_longest_ms"], row["gc_rank"]) == (4, 1)
        assert (row["num_ranks"], row["world_size"], row["waiting_known"]) == (2, 2, True)


def test_parts_of_each_rank(efficient_run):
    rows = efficient_run.ask("device_time_by_rank").to_pylist()
    for rank, row in enumerate(rows):
        expected = {name: ms[rank] for name, ms in PARTS_MS.items() if ms[rank]}
        assert parts_of(row) == pytest.approx(expected)
        assert row["num_steps"] == 2
    assert [row["wait_caused_ms"] for row in rows] == [0, pytest.approx(4)]


def test_the_time_that_data_moves_is_that_of_the_member_which_waits_least(efficient_run):
    (row,) = efficient_run.ask("collective_ops").to_pylist()
    assert (row["axis"], row["op"], row["num_per_step"]) == ("dp", "reduce_scatter", 1)
    assert row["moving_ms"] == pytest.approx(6)
    assert row["own_ms"] == pytest.approx((10 + 6) / 2)


def overlapping_run(folder, hosts):
    """Kernels of 60 ms, and in the middle of them a wait for data of 30 ms; TP and DP
    communication at once; host names say whether clocks are aligned.
    """
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2), hosts=hosts)
    run.group(1, [0, 1], "tp")
    run.group(2, [0, 1], "dp")
    for rank in range(2):
        run.step(rank, 0, 0, 100_000)
        run.span(rank, 0, "kernel", 0, 60_000, track="stream 7")
        run.span(rank, 0, "data_wait", 50_000, 80_000)
        run.span(rank, 0, "forward", 0, 50_000)
        for seq, (kind, group) in enumerate((("tp_comm", 1), ("dp_comm", 2))):
            run.span(rank, 0, kind, 85_000, 95_000, track=kind, group_id=group, coll_seq=seq)
            run.collective(rank, 0, group, seq, 85_000, 95_000)
    run.rank_files()
    run.publish()
    return folder


@pytest.mark.parametrize("hosts", [["a", "a"], ["a", "b"]], ids=["aligned", "not aligned"])
def test_what_overlaps_counts_once(tmp_path, hosts):
    with open_run(overlapping_run(tmp_path / "run", hosts)) as run:
        (row,) = run.ask("device_time").to_pylist()
    assert row["waiting_known"] == (hosts == ["a", "a"])
    assert parts_of(row) == pytest.approx(
        {"compute": 60, "data": 20, "moving_tp": 5, "moving_dp": 5, "unseen": 10}
    )


def test_compute_on_cpu_without_its_core_is_a_part_of_its_own(tmp_path):
    run = RunBuilder(tmp_path / "run", 1)
    run.step(0, 0, 0, 100_000)
    run.span(0, 0, "forward", 0, 60_000, cpu_ns=40_000_000)
    run.span(0, 0, "forward", 60_000, 90_000, cpu_ns=30_000_000, recompute=True)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        (row,) = opened.ask("device_time").to_pylist()
    expected = {"compute": 40, "core_wait": 20, "recompute": 30, "unseen": 10}
    assert parts_of(row) == pytest.approx(expected)


def test_a_step_that_a_rank_has_not_finished_counts_the_others_only(tmp_path):
    run = RunBuilder(tmp_path / "run", 2)
    run.step(0, 0, 0, 100_000)
    for rank in range(2):
        run.span(rank, 0, "forward", 0, 60_000)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        (row,) = opened.ask("device_time").to_pylist()
    assert (row["num_ranks"], row["world_size"]) == (1, 2)


def test_idle_between_stages_is_pipeline_bubble_and_within_a_stage_waiting(tmp_path):
    """Rank 1, the second stage, waits 40 ms for its input; rank 0 then waits 10 ms in the norm over
    both stages, and rank 3 waits 20 ms for rank 2 in a group of their stage.
    """
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, dp=2))
    run.group(1, [0, 2], "pp")
    run.group(2, [0, 1, 2, 3], "world")
    run.group(3, [0, 1], "dp")
    for rank in range(4):
        run.step(rank, 0, 0, 100_000)
        stage_us = 40_000 * (rank >= 2)
        run.span(rank, 0, "forward", stage_us, stage_us + 40_000)
    for rank in (0, 2):
        begin_us = 0 if rank == 2 else 39_000
        run.span(rank, 0, "pp_comm", begin_us, 40_000, group_id=1, coll_seq=0, track="p2p")
        run.collective(rank, 0, 1, 0, begin_us, 40_000, op="recv" if rank == 2 else "send",
                       peer=2 - rank, tag=0)  # fmt: skip
    for rank in (0, 1):
        begin_us = 40_000 + 20_000 * rank
        run.span(rank, 0, "dp_comm", begin_us, 62_000, group_id=3, coll_seq=0)
        run.collective(rank, 0, 3, 0, begin_us, 62_000)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = opened.ask("device_time_by_rank").to_pylist()
    assert (rows[0]["waiting_ms"], rows[0]["pipeline_ms"]) == (pytest.approx(20), 0)
    assert (rows[2]["waiting_ms"], rows[2]["pipeline_ms"]) == (0, pytest.approx(39))
    assert rows[2]["moving_pp_ms"] == pytest.approx(1)

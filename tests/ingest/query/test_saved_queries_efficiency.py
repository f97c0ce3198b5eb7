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

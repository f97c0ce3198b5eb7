"""What a step's time went to: hand-built spans in, rollup rows out."""

from __future__ import annotations

import pytest

from ingest.run import open_run
from tests.ingest.index.rollup_cells import cells, us
from tests.runs_builder import US, RunBuilder, two_rank_run


@pytest.fixture
def run(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    builder.rank_files()
    return builder


def test_two_ranks_and_a_late_one(tmp_path):
    two_rank_run(tmp_path / "run")
    by_cell = cells(tmp_path / "run")
    assert us(
        by_cell[0, 1], "window", "compute", "comm", "exposed_comm", "data_wait", "covered"
    ) == [
        100,
        60,
        30,
        30,
        10,
        100,
    ]
    # rank 0 waits 20 of its 30 us for rank 1, then data moves for 10
    assert us(by_cell[0, 1], "bubble", "bubble_late", "bubble_other") == [20, 20, 0]
    assert us(by_cell[1, 1], "compute", "bubble") == [80, 0]
    assert by_cell[0, 1]["num_spans"] == 5
    # forward 30 us CPU of which its communication 1, backward 38, optimizer 9
    assert by_cell[0, 1]["compute_cpu_ns"] == 30_000 - 1_000 + 38_000 + 9_000


def test_communication_inside_compute_is_communication(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "backward", 0, 100)
    run.span(0, 0, "dp_comm", 40, 70, depth=1)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "compute", "comm", "exposed_comm", "covered") == [70, 30, 30, 100]


def test_cpu_time_no_file_can_mean_is_unknown(run):
    """Sums beyond int64: three spans that each claim 146 years on the CPU."""
    run.step(0, 0, 0, 100)
    for number in range(3):
        run.span(0, 0, "forward", 10 * number, 10 * number + 5, cpu_ns=2**62)
    run.publish()
    with open_run(run.folder) as opened:
        (kind,) = opened.sql("SELECT self_cpu_ns FROM kind_rollup").to_pylist()
        (step,) = opened.sql("SELECT compute_cpu_ns FROM step_rollup").to_pylist()
    assert (kind["self_cpu_ns"], step["compute_cpu_ns"]) == (None, None)


def test_compute_nested_in_compute_counts_once_and_recompute_is_separate(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "backward", 0, 80)
    run.span(0, 0, "forward", 10, 30, depth=1, recompute=True)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "compute", "recompute") == [80, 20]


def test_across_tracks_times_are_united_and_hidden_communication_is_not_exposed(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 50, track="stream 7")
    run.span(0, 0, "backward", 40, 60, track="stream 8")
    run.span(0, 0, "dp_comm", 30, 90, track="stream 9")
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "compute", "comm", "exposed_comm", "covered") == [60, 60, 30, 90]


def test_kernels_are_the_compute_where_there_are_any(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 90, track="host")
    run.span(0, 0, "kernel", 20, 60, track="stream")
    run.publish()
    assert us(cells(run.folder)[0, 0], "compute", "covered") == [40, 90]


def test_a_span_over_a_border_is_divided_there(run):
    run.step(0, 0, 0, 100)
    run.step(0, 1, 110, 200)
    run.step(0, 2, 200, 300)
    run.span(0, 0, "checkpoint", 50, 250, track="saver")
    run.publish()
    by_cell = cells(run.folder)
    assert [us(by_cell[0, s], "other")[0] for s in range(3)] == [50, 100, 50]
    # the window of step 1 begins where step 0 ended
    assert us(by_cell[0, 1], "window") == [100]
    assert [by_cell[0, s]["num_spans"] for s in range(3)] == [1, 0, 0]


def test_gaps_are_never_covered_and_modes_are_separate(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 30)
    run.span(0, 0, "forward", 50, 70, mode="compiled")
    run.span(0, 0, "forward", 60, 80, mode="graphed", track="other")
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "covered", "eager", "compiled", "graphed", "imported") == [60, 30, 20, 20, 0]


def test_without_compute_data_and_transfer_covered_time_is_bubble(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 30)
    run.span(0, 0, "gc", 10, 20, depth=1)
    run.span(0, 0, "data_wait", 40, 50)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "bubble", "bubble_other", "other", "compute") == [10, 10, 10, 20]


def test_a_loader_on_another_thread_hides_no_waiting(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.span(0, 0, "data_fetch", 0, 100, track="loader")
    builder.publish()
    row = cells(builder.folder)[0, 0]
    assert us(row, "bubble", "data_fetch", "data_wait") == [20, 100, 10]


def test_fetching_on_the_training_thread_is_waiting_for_data(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "data_fetch", 0, 20)
    run.span(0, 0, "forward", 20, 80)
    run.span(0, 0, "data_wait", 80, 85)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "data_wait", "data_fetch", "compute", "bubble") == [25, 20, 60, 0]


def test_fetching_during_compute_or_communication_is_hidden(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "data_fetch", 0, 100, track="loader")
    run.span(0, 0, "forward", 10, 50)
    run.span(0, 0, "dp_comm", 50, 90)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert us(row, "data_wait", "data_fetch") == [20, 100]


def test_an_unfinished_step_has_what_was_seen_so_far(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 100)
    run.span(0, 1, "forward", 120, 180)
    run.span(0, -1, "host", -50, 20)
    run.publish()
    by_cell = cells(run.folder)
    assert not by_cell[0, 1]["finished"]
    assert us(by_cell[0, 1], "window", "compute") == [80, 60]
    # what came before the first step ends where that begins
    assert us(by_cell[0, -1], "window", "other") == [50, 50]


def test_steps_with_clocks_of_their_own(tmp_path):
    run = RunBuilder(tmp_path / "run", 2, clock="per_step_relative", source="straggler_analysis")
    for rank in range(2):
        for step in range(3):
            run.step(rank, step, 0, 100)
            run.span(rank, step, "forward", 10, 60, mode="imported")
            run.span(rank, step, "pp_comm", 60, 70 + 10 * step, mode="imported")
    run.publish()
    by_cell = cells(run.folder)
    assert len(by_cell) == 6
    assert us(by_cell[1, 2], "window", "compute", "comm", "covered") == [100, 50, 30, 80]


def two_hosts_in_a_collective(folder):
    """Half of a step; how the clocks of the hosts differ is not known."""
    builder = RunBuilder(folder, 2, hosts=["a", "b"])
    builder.rank_files()
    builder.group(7, [0, 1], "dp")
    for rank in range(2):
        builder.step(rank, 0, 0, 100)
        builder.span(rank, 0, "dp_comm", 0, 50)
        builder.collective(rank, 0, 7, 0, 0, 50)
    builder.publish()
    return builder


def test_no_bubble_without_aligned_clocks(tmp_path):
    builder = two_hosts_in_a_collective(tmp_path / "run")
    row = cells(builder.folder)[0, 0]
    assert us(row, "comm", "bubble") == [50, None]


def test_clocks_that_become_known_later_count_for_earlier_steps(tmp_path):
    builder = two_hosts_in_a_collective(tmp_path / "run")
    assert cells(builder.folder)[0, 0]["bubble_ns"] is None
    # rank 1's clock is 10 us behind: it was ready 10 us later than its own times say
    builder.add("clocks", 1, 0, ts_ns=0, offset_ns=10_000, err_ns=100)
    builder.publish()
    assert us(cells(builder.folder)[0, 0], "bubble", "bubble_late") == [10, 10]


def test_a_row_with_an_absurd_time_stops_nothing(run):
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 40)
    run.add("spans", 0, 0, kind="gc", ts_ns=-(1 << 61), dur_ns=5)
    run.add("spans", 0, 0, kind="gc", ts_ns=5, dur_ns=1 << 60)
    run.publish()
    assert us(cells(run.folder)[0, 0], "window", "compute") == [100, 40]


def test_a_clock_decades_behind_takes_no_waits_from_other_ranks(tmp_path):
    builder = RunBuilder(tmp_path / "run", 3)
    builder.rank_files()
    builder.group(7, [0, 1, 2], "dp")
    builder.group(8, [0, 1], "tp")
    for rank in range(3):
        builder.step(rank, 0, 0, 1000)
        for seq in range(12):  # int64 holds the waits of nine
            start_us = 20 * seq - (1e15 if rank == 2 else 0)
            builder.collective(rank, 0, 7, seq, start_us, start_us + 10)
    for rank in range(2):
        builder.collective(rank, 0, 8, 0, 500 + rank, 510)
    builder.publish()
    with open_run(builder.folder) as run:
        rows = run.index_rows(
            "SELECT group_id, num_unaligned, wait_ns, num_ends FROM collective_rollup"
            " WHERE rank = 0 ORDER BY group_id"
        )
    of_all, of_two = ([row[name] for name in row] for row in rows)
    assert of_all == [7, 12, None, 0]
    assert of_two == [8, 0, US, 1]

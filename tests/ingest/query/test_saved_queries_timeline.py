"""The questions a timeline asks: rows in, table out, on the aligned clock."""

from __future__ import annotations

from operator import itemgetter

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, US, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout

AHEAD_US = 500
"""Rank 1's clock shows this much less than rank 0's."""


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """two_rank_run with rank 1 on a host of its own, whose clock is AHEAD_US behind."""
    folder = tmp_path_factory.mktemp("timeline") / "run"
    builder = two_rank_run(folder)
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    builder.add(
        "clocks", 1, 0, ts_ns=T0, offset_ns=AHEAD_US * US, err_ns=2000, method="store_ping_pong"
    )
    builder.publish()
    with open_run(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline") / "run"
    two_rank_run(folder)
    with open_run(folder) as opened:
        yield opened


def rows(run, name, **params):
    return run.ask(name, **params).to_pylist()


def test_window_spans_are_on_the_aligned_clock(shifted):
    selected = rows(shifted, "window_spans", ranks="0,1", step=0)
    begin = {row["rank"]: row["begin_ns"] for row in selected if row["kind"] == "data_wait"}
    assert begin == {0: T0, 1: T0 + AHEAD_US * US}


def test_window_spans_of_a_window_are_those_that_reach_into_it(plain):
    def kinds(begin_us, end_us):
        selected = rows(
            plain, "window_spans", ranks="0", begin_ns=T0 + begin_us * US, end_ns=T0 + end_us * US
        )
        return sorted(row["kind"] for row in selected)

    assert kinds(0, 10) == ["data_wait"]
    assert kinds(15, 16) == ["forward"]
    assert kinds(45, 95) == ["backward", "forward", "optimizer", "tp_comm"]
    assert kinds(300, 400) == []


def test_window_spans_of_own_clocks_narrow_the_files_only(plain):
    window = {"ranks": "1", "begin_ns": T0, "end_ns": T0 + 100 * US}
    all_rows = rows(plain, "window_spans", **window)
    assert len(all_rows) == 5
    narrowed = rows(
        plain, "window_spans", **window, rank_min=1, rank_max=1, from_ns=T0, to_ns=T0 + 100 * US
    )
    by_begin = itemgetter("begin_ns")
    assert sorted(narrowed, key=by_begin) == sorted(all_rows, key=by_begin)
    assert rows(plain, "window_spans", **window, from_ns=T0 + 10_000 * US) == []


def test_window_waits_name_who_came_last(plain):
    selected = rows(plain, "window_waits", ranks="0,1", begin_ns=T0, end_ns=T0 + 100 * US)
    assert [(row["rank"], row["last_rank"], row["is_crossing"]) for row in selected] == [
        (0, 1, False),
        (1, 1, False),
    ]
    first = selected[0]
    assert (first["begin_ns"], first["latest_ns"]) == (T0 + 20 * US, T0 + 40 * US)
    assert first["first_end_ns"] == T0 + 50 * US


def test_window_waits_look_at_members_that_are_no_lanes(plain):
    (row,) = rows(plain, "window_waits", ranks="0", begin_ns=T0, end_ns=T0 + 100 * US)
    assert (row["rank"], row["last_rank"]) == (0, 1)


def test_window_waits_on_another_stage_cross(tmp_path):
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))
    run.group(9, [0, 1], "pp")
    run.collective(0, 0, 9, 0, 60, 70, op="send", peer=1, tag=0)
    run.collective(1, 0, 9, 0, 0, 70, op="recv", peer=0, tag=0)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        selected = rows(opened, "window_waits", ranks="1")
    assert [(row["src"], row["dst"], row["last_rank"], row["is_crossing"]) for row in selected] == [
        (0, 1, 0, True)
    ]


def test_window_waits_use_the_estimate_of_the_moment(tmp_path):
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    run.hosts = ["h0", "h1"]
    run.group(9, [0, 1], "dp")
    for seq, begin_us in enumerate((10, 1_000, 2_000)):
        run.collective(0, 0, 9, seq, begin_us, begin_us + 50)
        run.collective(1, 0, 9, seq, begin_us, begin_us + 50)
    run.rank_files()
    for at_us, offset_us in ((500, 1), (1_000, 2), (1_500, 3), (9_000, 4)):
        run.add(
            "clocks",
            1,
            0,
            ts_ns=T0 + at_us * US,
            offset_ns=offset_us * US,
            err_ns=2000,
            method="store_ping_pong",
        )
    run.publish()
    with open_run(run.folder) as opened:
        selected = rows(opened, "window_waits", ranks="1")
    begin_us = [(row["begin_ns"] - T0) / US for row in selected]
    assert begin_us == [11, 1_002, 2_003]  # the first one holds for the time before it, too
    assert [row["latest_ns"] for row in selected] == [row["begin_ns"] for row in selected]


def test_window_waits_of_an_unknown_clock_have_no_verdict(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    with open_run(builder.folder) as opened:
        selected = rows(opened, "window_waits", ranks="0,1")
    assert [(row["latest_ns"], row["last_rank"]) for row in selected] == [(None, None)] * 2


def test_step_windows(shifted):
    selected = rows(shifted, "step_windows", ranks="1", step_min=1, step_max=1)
    shift = T0 + AHEAD_US * US
    assert selected == [
        {
            "rank": 1,
            "step": 1,
            "begin_ns": shift + 100 * US,
            "end_ns": shift + 200 * US,
            "finished": True,
            "num_spans": 5,
            "is_summed": False,
        }
    ]
    assert rows(shifted, "step_windows", ranks="1", end_ns=T0 + AHEAD_US * US) == []


def test_step_extent(shifted):
    (found,) = rows(shifted, "step_extent", ranks="0,1")
    assert (found["begin_ns"], found["end_ns"]) == (T0, T0 + (300 + AHEAD_US) * US)
    assert (found["first_step"], found["last_step"], found["num_ranks"]) == (0, 2, 2)
    assert (found["finished_step"], found["before_step"]) == (2, 1)


def test_step_extent_waits_for_the_slowest_rank(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=2)
    builder.step(0, 2, 200, 300)
    builder.span(1, 2, "forward", 200, 250)
    builder.publish()
    with open_run(builder.folder) as opened:
        (found,) = rows(opened, "step_extent", ranks="0,1")
    assert (found["finished_step"], found["before_step"], found["last_step"]) == (1, 0, 2)


def test_clock_shifts(shifted):
    reference, other = rows(shifted, "clock_shifts")
    assert (reference["shift_min_ns"], reference["err_ns"], reference["tp"]) == (0, 0, 0)
    assert (other["shift_max_ns"], other["err_ns"], other["tp"]) == (AHEAD_US * US, 2000, 1)


def test_span_search_counts_all_and_lists_the_first(plain):
    selected = rows(plain, "span_search", ranks="0,1", text="X", top=3)
    assert len(selected) == 3
    assert {row["num_found"] for row in selected} == {30}
    assert [row["begin_ns"] for row in selected] == sorted(row["begin_ns"] for row in selected)
    assert rows(plain, "span_search", ranks="0,1", text="%") == []


def test_step_shares_are_the_rollups_and_can_be_pooled(plain):
    def shares(pool):
        selected = rows(plain, "step_shares", ranks="0", pool=pool)
        return {(row["step"], row["kind"]): row["time_ns"] // US for row in selected}

    each = shares(1)
    assert each[1, "backward"] == 40
    assert each[1, "waiting"] == 20  # for rank 1, which comes 20 us later
    pooled = shares(3)
    assert pooled[0, "backward"] == 120
    assert {step for step, _ in pooled} == {0}
    limits = rows(plain, "step_shares", ranks="0", from_ns=T0 + 100 * US, to_ns=T0 + 200 * US)
    assert {row["step"] for row in limits} == {1}

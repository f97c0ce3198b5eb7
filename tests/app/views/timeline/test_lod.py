"""Level of detail on hand-made pieces and spans: sums stay, lone spans stay, the bound holds."""

from __future__ import annotations

import numpy as np
import pytest

from app.views.timeline.lod import Pieces, depths, innermost, levels, nested, owned, rectangles
from app.views.timeline.span_table import SpanTable
from trace_hooks.schema import KINDS

FORWARD, BACKWARD, TP, HOST = (
    KINDS.index(kind) for kind in ("forward", "backward", "tp_comm", "host")
)


def pieces(*rows):
    """Rows of (row, begin, end, kind); ref is the number of the row."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Pieces(*columns, np.arange(columns.shape[1]))


def spans(*rows):
    """Rows of (lane, track, begin, end, kind)."""
    lane, track, begin, end, kind = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    none = np.full(lane.size, -1, dtype=np.int64)
    return SpanTable(
        lane,
        begin,
        end,
        none,
        kind,
        np.zeros_like(lane),
        track,
        np.zeros_like(lane),
        none,
        none,
        np.zeros(lane.size, dtype=bool),
        none,
        none,
        none,
        none,
        np.zeros(lane.size, dtype=bool),
        ["x"],
        [],
    )


def by_row(rects, name):
    """Sum of a column per row of rectangles."""
    sums = {}
    for row, value in zip(rects.row_R.tolist(), getattr(rects, name).tolist(), strict=True):
        sums[row] = sums.get(row, 0) + value
    return sums


def many(rng, num):
    begin = np.sort(rng.integers(0, 1_000_000, num)) * 10
    length = rng.integers(1, 10, num)
    return Pieces(
        rng.integers(0, 6, num), begin, begin + length, rng.integers(0, 4, num), np.arange(num)
    )


def test_merging_keeps_sums_and_numbers_of_pieces():
    whole = many(np.random.default_rng(1), 20_000)
    rects = rectangles(whole, 0, 10_000.0)
    assert rects.row_R.size < 6_100
    expected = np.bincount(whole.row_E, whole.end_E - whole.begin_E)
    assert by_row(rects, "busy_R") == dict(enumerate(expected.tolist()))
    assert by_row(rects, "count_R") == dict(enumerate(np.bincount(whole.row_E).tolist()))


def test_long_pieces_stay_exact_next_to_merged_ones():
    rows = [(0, i * 10, i * 10 + 5, FORWARD) for i in range(100)]
    rects = rectangles(pieces(*rows, (0, 1000, 3000, BACKWARD)), 0, 200.0)
    long = rects.kind_R == BACKWARD
    assert (rects.begin_R[long], rects.end_R[long], rects.count_R[long]) == (1000, 3000, 1)
    assert rects.count_R[~long].sum() == 100
    assert rects.row_R.size == 2


def test_a_lone_short_piece_stays_exact():
    rects = rectangles(pieces((3, 5_000_123, 5_000_124, HOST)), 0, 1e6)
    assert (rects.begin_R[0], rects.end_R[0], rects.count_R[0]) == (5_000_123, 5_000_124, 1)
    assert rects.ref_R[0] == 0


def test_a_pixel_has_the_kind_that_covers_most_and_the_longest_piece():
    rows = ((0, 0, 30, TP), (0, 30, 50, FORWARD), (0, 50, 72, FORWARD), (0, 80, 81, HOST))
    rects = rectangles(pieces(*rows), 0, 100.0)
    assert rects.kind_R.tolist() == [FORWARD]
    assert rects.ref_R.tolist() == [0]
    assert (rects.count_R[0], rects.busy_R[0]) == (4, 73)
    assert (rects.begin_R[0], rects.end_R[0]) == (0, 81)


def test_pixels_that_differ_in_how_full_they_are_are_not_joined():
    full = [(0, i, i + 1, FORWARD) for i in range(100)]
    thin = [(0, 100 + i * 50, 101 + i * 50, FORWARD) for i in range(2)]
    rects = rectangles(pieces(*full, *thin), 0, 100.0)
    assert rects.busy_R.tolist() == [100, 2]


def test_the_bound_holds_by_larger_pixels_and_their_size_is_returned():
    whole = many(np.random.default_rng(2), 30_000)
    rects = rectangles(whole, 0, 1.0, most=500)
    assert rects.row_R.size <= 500
    assert rects.pixel_ns > 1.0
    assert rects.count_R.sum() == 30_000


def test_more_long_pieces_than_the_bound_are_merged_too():
    rows = [(0, i * 1000, i * 1000 + 900, FORWARD) for i in range(1000)]
    rects = rectangles(pieces(*rows), 0, 10.0, most=100)
    assert rects.row_R.size <= 100
    assert rects.busy_R.sum() == 900_000


def test_no_pieces_are_no_rectangles():
    assert rectangles(pieces(), 0, 10.0).row_R.size == 0


def test_the_innermost_span_of_a_track_owns_the_instant():
    table = spans((0, 0, 0, 100, FORWARD), (0, 0, 40, 60, TP))
    made = innermost(table, owned(table), np.array([0, 1]))
    segments = sorted(zip(made.row_E, made.begin_E, made.end_E, strict=True))
    assert segments == [(0, 0, 40), (0, 60, 100), (1, 40, 60)]


def test_tracks_of_one_row_do_not_count_twice():
    table = spans((0, 0, 0, 100, FORWARD), (0, 1, 40, 60, FORWARD))
    made = innermost(table, owned(table), np.array([0, 0]))
    assert (made.end_E - made.begin_E).sum() == 100


def test_nesting_goes_down_and_tracks_stand_below_each_other():
    table = spans(
        (0, 0, 0, 100, FORWARD),
        (0, 0, 10, 50, FORWARD),
        (0, 0, 20, 30, FORWARD),
        (0, 1, 0, 100, BACKWARD),
        (1, 1, 0, 100, BACKWARD),
    )
    made, level = nested(table, np.array([0, 0, 0, 0, 3]))
    assert level.tolist() == [0, 1, 2, 3, 0]
    assert made.end_E[2] - made.begin_E[2] == 10


def test_kernels_that_overlap_on_one_stream_are_stacked():
    table = spans(
        (0, 0, 0, 10, FORWARD),
        (0, 0, 5, 15, FORWARD),
        (0, 0, 12, 20, FORWARD),
        (1, 0, 0, 10, FORWARD),
        (1, 0, 10, 20, FORWARD),
    )
    made, level = nested(table, np.array([0, 0, 0, 3, 3]))
    assert level.tolist() == [0, 1, 0, 0, 0]
    assert made.ref_E.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(5))
def test_two_spans_of_one_level_never_overlap(seed):
    rng = np.random.default_rng(seed)
    group, begin = rng.integers(0, 3, 200), rng.integers(0, 500, 200)
    end = begin + rng.integers(1, 40, 200)
    level = levels(group, begin, end)
    for one in {(g, n) for g, n in zip(group.tolist(), level.tolist(), strict=True)}:
        own = (group == one[0]) & (level == one[1])
        order = np.argsort(begin[own])
        assert (begin[own][order][1:] >= end[own][order][:-1]).all()


@pytest.mark.parametrize("deep", [1, 7, 40])
def test_depths(deep):
    begin = np.arange(deep)
    found = depths(np.zeros(deep, dtype=np.int64), begin, 1000 - begin)
    assert found.tolist() == list(range(deep))

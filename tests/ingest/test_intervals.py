"""Many intervals at once, against the same thing done slowly by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ingest.intervals import divide, enclosing, overlay, owned_segments

MAX_T = 45


def _random(rng, count):
    group = rng.integers(0, 3, count)
    begin = rng.integers(0, 30, count)
    return group, begin, begin + rng.integers(0, 12, count)


def _owners_by_hand(group, begin, end):
    owners = {}
    for g in set(group.tolist()):
        for t in range(MAX_T):
            open_ = [i for i in range(len(group)) if group[i] == g and begin[i] <= t < end[i]]
            if open_:
                owners[g, t] = max((begin[i], -end[i]) for i in open_)
    return owners


@pytest.mark.parametrize("seed", range(60))
def test_every_instant_belongs_to_the_innermost_span(seed):
    rng = np.random.default_rng(seed)
    group, begin, end = _random(rng, int(rng.integers(0, 25)))
    segments = owned_segments(group, begin, end)
    owners = {}
    for i, b, e in zip(segments.owner_E, segments.begin_E, segments.end_E, strict=True):
        for t in range(b, e):
            assert (group[i], t) not in owners
            owners[group[i], t] = (begin[i], -end[i])
    assert owners == _owners_by_hand(group, begin, end)


@pytest.mark.parametrize("seed", range(60))
def test_overlay_unites_the_bits_of_all_that_cover_a_moment(seed):
    rng = np.random.default_rng(seed)
    group, begin, end = _random(rng, int(rng.integers(0, 25)))
    bits = np.int64(1) << rng.integers(0, 5, group.size)
    expected: dict[tuple[int, int], int] = {}
    for g in range(3):
        for t in range(MAX_T):
            covering = bits[(group == g) & (begin <= t) & (t < end)]
            if covering.size:
                mask = int(np.bitwise_or.reduce(covering))
                expected[g, mask] = expected.get((g, mask), 0) + 1
    found: dict[tuple[int, int], int] = {}
    *rows, bits_of_state = overlay(group, begin, end, bits)
    for g, length, state in zip(*rows, strict=True):
        key = int(g), int(bits_of_state[state])
        found[key] = found.get(key, 0) + int(length)
    assert found == expected


@pytest.mark.parametrize("seed", range(40))
def test_spans_are_cut_at_the_borders_of_their_ranks_windows(seed):
    rng = np.random.default_rng(seed)
    rank, begin, end = _random(rng, 20)
    borders = np.sort(rng.choice(np.arange(3, 40), 6, replace=False))
    rank_w = np.repeat(np.arange(3), 5)
    begin_w, end_w = np.tile(borders[:-1], 3), np.tile(borders[1:], 3)
    expected = {
        (i, w, max(begin[i], begin_w[w]), min(end[i], end_w[w]))
        for i in range(20)
        for w in range(15)
        if rank[i] == rank_w[w] and max(begin[i], begin_w[w]) < min(end[i], end_w[w])
    }
    pieces = divide(rank, begin, end, rank_w, begin_w, end_w)
    assert set(zip(*(column.tolist() for column in pieces), strict=True)) == expected


def test_the_parent_of_nested_spans():
    begin = np.array([0, 1, 2, 5, 20, 21])
    end = np.array([10, 4, 3, 9, 30, 30])
    assert enclosing(begin, end).tolist() == [-1, 0, 1, 0, -1, 4]


def test_times_that_do_not_fit_are_refused():
    group = np.arange(1 << 20)
    begin = np.zeros(1 << 20, dtype=np.int64)
    with pytest.raises(ValueError, match="62 bits"):
        overlay(group, begin, begin + (1 << 50), begin + 1)

"""Arithmetic on many intervals at once, in numpy: no Python loop per row.

Shape suffixes: N intervals, E elementary segments. All times int64 ns; an interval is
[begin, end). A *group* (a rank's track, or a rank's step) is a dense number from 0; intervals of
different groups never meet. Times and groups share one int64 key (group * width + time), so one
sort serves all groups; callers keep groups * extent below 2^62 (`fits`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LIMIT = 1 << 62


def fits(num_groups: int, extent_ns: int) -> bool:
    """Whether that many groups over a time of this extent can share an int64 key."""
    return num_groups * (extent_ns + 1) < _LIMIT


class _Keys:
    """Times of several groups on one line."""

    def __init__(self, group_N: Ints, begin_N: Ints, end_N: Ints) -> None:
        num_groups = int(group_N.max()) + 1 if group_N.size else 0
        origin_G = np.full(num_groups, np.iinfo(np.int64).max)
        np.minimum.at(origin_G, group_N, begin_N)
        self.origin_G: Ints = origin_G
        self._shift_N = origin_G[group_N]
        extent = int((end_N - self._shift_N).max()) if group_N.size else 0
        if not fits(num_groups, extent):
            raise ValueError(f"{num_groups} groups over {extent} ns exceed 62 bits; choose fewer")
        self.width = extent + 1
        self.begin_N: Ints = group_N * self.width + (begin_N - self._shift_N)
        self.end_N: Ints = group_N * self.width + (end_N - self._shift_N)


@dataclass(frozen=True)
class Segments:
    """Elementary pieces of time: the interval that owns each, and how long it is."""

    owner_E: Ints
    begin_E: Ints
    end_E: Ints


def enclosing(begin_N: Ints, end_N: Ints) -> Ints:
    """Nearest earlier interval that ends no sooner, -1 none; intervals sorted by key.

    On properly nested spans this is the parent. Pointer doubling: about log2(N) vector steps.
    """
    n = begin_N.size
    parent_N = np.full(n, -1, dtype=np.int64)
    if n < 2:
        return parent_N
    latest_end_N = np.maximum.accumulate(end_N)
    index_N = np.arange(1, n)
    has_N = latest_end_N[:-1] >= end_N[1:]
    parent_N[1:][has_N] = index_N[has_N] - 1
    active_N = index_N[has_N]
    while active_N.size:
        found_N = parent_N[active_N]
        active_N = active_N[end_N[found_N] < end_N[active_N]]
        parent_N[active_N] = parent_N[parent_N[active_N]]
    return parent_N


def parents(group_N: Ints, begin_N: Ints, end_N: Ints) -> Ints:
    """Index of the innermost interval of the same group that each one lies in, -1 none."""
    order_N = nesting_order(group_N, begin_N, end_N)
    keys = _Keys(group_N[order_N], begin_N[order_N], end_N[order_N])
    found_N = enclosing(keys.begin_N, keys.end_N)
    inside_N = (found_N >= 0) & (keys.end_N[found_N] > keys.begin_N)
    result_N = np.full(group_N.size, -1, dtype=np.int64)
    result_N[order_N[inside_N]] = order_N[found_N[inside_N]]
    return result_N


def nesting_order(group_N: Ints, begin_N: Ints, end_N: Ints) -> Ints:
    """Order in which every interval follows those it lies in: group, begin, longest first."""
    return np.lexsort((-end_N, begin_N, group_N))


def owned_segments(group_N: Ints, begin_N: Ints, end_N: Ints) -> Segments:
    """Divide every group's time among its intervals: each instant belongs to the innermost one.

    Innermost is the one begun last among those still open, so spans that overlap without being
    nested have an answer, too. Owners are indices into the arguments. Empty intervals own nothing.
    """
    order_N = nesting_order(group_N, begin_N, end_N)
    order_N = order_N[end_N[order_N] > begin_N[order_N]]
    if not order_N.size:
        return Segments(*(np.empty(0, dtype=np.int64) for _ in range(3)))
    keys = _Keys(group_N[order_N], begin_N[order_N], end_N[order_N])
    parent_N = enclosing(keys.begin_N, keys.end_N)
    borders = np.sort(np.concatenate((keys.begin_N, keys.end_N)))  # np.unique: thrice as slow
    borders = borders[np.append(True, np.diff(borders) > 0)]
    start_E = borders[:-1]
    owner_E = np.searchsorted(keys.begin_N, start_E, side="right") - 1
    closed_E = np.flatnonzero(keys.end_N[owner_E] <= start_E)
    while closed_E.size:
        owner_E[closed_E] = parent_N[owner_E[closed_E]]
        closed_E = closed_E[owner_E[closed_E] >= 0]
        closed_E = closed_E[keys.end_N[owner_E[closed_E]] <= start_E[closed_E]]
    owned_E = owner_E >= 0
    sorted_owner_E = owner_E[owned_E]
    owner_N = order_N[sorted_owner_E]
    begin_E = begin_N[owner_N] + (start_E[owned_E] - keys.begin_N[sorted_owner_E])
    return Segments(owner_N, begin_E, begin_E + np.diff(borders)[owned_E])


def overlay(
    group_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints, num_bits: int
) -> tuple[Ints, Ints, Ints]:
    """Lay all intervals of a group over each other: (group, length, bits) of each piece of time.

    A piece's bits are those of all intervals covering it; uncovered time has no piece.
    """
    group_E, begin_E, end_E, bits_E = pieces(group_N, begin_N, end_N, bits_N, num_bits)
    return group_E, end_E - begin_E, bits_E


def pieces(
    group_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints, num_bits: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """What `overlay` gives, with the times: (group, begin, end, bits) of each piece of time."""
    keep_N = end_N > begin_N
    group_N, begin_N, end_N, bits_N = (a[keep_N] for a in (group_N, begin_N, end_N, bits_N))
    if not group_N.size:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty, empty
    keys = _Keys(group_N, begin_N, end_N)
    at_2N = np.concatenate((keys.begin_N, keys.end_N))
    order_2N = np.argsort(at_2N, kind="stable")
    at_2N = at_2N[order_2N]
    bits_2N = np.concatenate((bits_N, bits_N))[order_2N]
    sign_2N = np.where(order_2N < group_N.size, 1, -1).astype(np.int32)
    open_2N = np.zeros(at_2N.size, dtype=np.int64)
    present = int(np.bitwise_or.reduce(bits_N))
    for bit in range(num_bits):
        if present >> bit & 1:
            has_2N = (bits_2N >> bit & 1).astype(np.int32)
            count_2N = np.cumsum(sign_2N * has_2N, dtype=np.int32)
            open_2N |= (count_2N > 0).astype(np.int64) << bit
    length_E = np.diff(at_2N)
    piece_E = np.flatnonzero((length_E > 0) & (open_2N[:-1] != 0))
    group_E = at_2N[piece_E] // keys.width
    begin_E = at_2N[piece_E] % keys.width + keys.origin_G[group_E]
    return group_E, begin_E, begin_E + length_E[piece_E], open_2N[piece_E]


def divide(
    rank_N: Ints, begin_N: Ints, end_N: Ints, rank_W: Ints, begin_W: Ints, end_W: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Cut intervals at the borders of their rank's windows: (interval, window, begin, end).

    Windows are sorted by (rank, begin) and disjoint within a rank; what lies in no window is left
    out. Ranks are dense numbers from 0.
    """
    empty = np.empty(0, dtype=np.int64)
    if not rank_N.size or not rank_W.size:
        return empty, empty, empty, empty
    origin, last = int(begin_W.min()), int(end_W.max())
    width = last - origin + 1
    begin_N, end_N = np.clip(begin_N, origin, last), np.clip(end_N, origin, last)
    num_ranks = int(max(rank_N.max(), rank_W.max())) + 1
    if not fits(num_ranks, width):
        raise ValueError(f"{num_ranks} ranks over {width} ns exceed 62 bits; choose fewer ranks")
    first_N = np.searchsorted(
        rank_W * width + (end_W - origin), rank_N * width + (begin_N - origin), side="right"
    )
    past_N = np.searchsorted(
        rank_W * width + (begin_W - origin), rank_N * width + (end_N - origin), side="left"
    )
    count_N = np.maximum(past_N - first_N, 0)
    interval = np.repeat(np.arange(rank_N.size), count_N)
    offset = np.arange(interval.size) - np.repeat(np.cumsum(count_N) - count_N, count_N)
    window = first_N[interval] + offset
    begin = np.maximum(begin_N[interval], begin_W[window])
    end = np.minimum(end_N[interval], end_W[window])
    keep = (end > begin) & (rank_W[window] == rank_N[interval])
    return interval[keep], window[keep], begin[keep], end[keep]

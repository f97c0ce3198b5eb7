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
import pyarrow as pa

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

    def nesting_order(self) -> Ints:
        """Order in which every interval follows those it lies in: group, begin, longest first."""
        order_N = np.argsort(self.begin_N)
        begin_N = self.begin_N[order_N]
        is_same = begin_N[1:] == begin_N[:-1]
        tied = np.flatnonzero(np.append(is_same, False) | np.append(False, is_same))
        tied_N = order_N[tied]
        order_N[tied] = tied_N[np.lexsort((tied_N, -self.end_N[tied_N], self.begin_N[tied_N]))]
        return order_N


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
    keys = _Keys(group_N, begin_N, end_N)
    order_N = keys.nesting_order()
    begin_N, end_N = keys.begin_N[order_N], keys.end_N[order_N]
    found_N = enclosing(begin_N, end_N)
    inside_N = (found_N >= 0) & (end_N[found_N] > begin_N)
    result_N = np.full(group_N.size, -1, dtype=np.int64)
    result_N[order_N[inside_N]] = order_N[found_N[inside_N]]
    return result_N


def owned_segments(group_N: Ints, begin_N: Ints, end_N: Ints) -> Segments:
    """Divide every group's time among its intervals: each instant belongs to the innermost one.

    Innermost is the one begun last among those still open, so spans that overlap without being
    nested have an answer, too. Owners are indices into the arguments; segments come sorted by
    group and time. Empty intervals own nothing.
    """
    some_N = np.flatnonzero(end_N > begin_N)
    if not some_N.size:
        return Segments(*(np.empty(0, dtype=np.int64) for _ in range(3)))
    keys = _Keys(group_N[some_N], begin_N[some_N], end_N[some_N])
    order_N = keys.nesting_order()
    from_N = keys.begin_N[order_N]
    owner_E, start_E, stop_E = _owners(from_N, keys.end_N[order_N])
    owner_N = some_N[order_N[owner_E]]
    begin_E = begin_N[owner_N] + (start_E - from_N[owner_E])
    return Segments(owner_N, begin_E, begin_E + (stop_E - start_E))


def _owners(begin_N: Ints, end_N: Ints) -> tuple[Ints, Ints, Ints]:
    """(owner, begin, end) of each piece of time of intervals in nesting order.

    An interval owns the time from its beginning to that of the next one. Where it ends before, the
    rest is its parent's, which can end before, too.
    """
    parent_N = enclosing(begin_N, end_N)
    next_N = np.append(begin_N[1:], np.iinfo(np.int64).max)
    after_E = owner_E = np.arange(begin_N.size)
    start_E, found = begin_N, []
    while after_E.size:
        stop_E = np.minimum(end_N[owner_E], next_N[after_E])
        has_E = stop_E > start_E
        found.append((after_E[has_E], owner_E[has_E], start_E[has_E], stop_E[has_E]))
        goes_on_E = (stop_E < next_N[after_E]) & (parent_N[owner_E] >= 0)
        after_E, start_E = after_E[goes_on_E], stop_E[goes_on_E]
        owner_E = parent_N[owner_E[goes_on_E]]
    after_E, owner_E, start_E, stop_E = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    in_time_E = np.argsort(after_E, kind="stable")
    return owner_E[in_time_E], start_E[in_time_E], stop_E[in_time_E]


def overlay(
    group_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Lay all intervals of a group over each other: (group, length, state) of each piece of time,
    groups ascending, and the bits of each state.

    The bits are those of all intervals covering the piece; uncovered time has no piece.
    """
    keys, at_2N, piece_E, state_E, bits_B = _states(group_N, begin_N, end_N, bits_N)
    return at_2N[piece_E] // keys.width, at_2N[piece_E + 1] - at_2N[piece_E], state_E, bits_B


def pieces(
    group_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """The same with times and bits: (group, begin, end, bits) of each piece of time."""
    keys, at_2N, piece_E, state_E, bits_B = _states(group_N, begin_N, end_N, bits_N)
    group_E = at_2N[piece_E] // keys.width
    begin_E = at_2N[piece_E] % keys.width + keys.origin_G[group_E]
    end_E = begin_E + at_2N[piece_E + 1] - at_2N[piece_E]
    return group_E, begin_E, end_E, bits_B[state_E]


def _states(
    group_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints
) -> tuple[_Keys, Ints, Ints, Ints, Ints]:
    """The moments at which intervals begin and end, at which of them pieces begin, the state of
    each piece, and the bits of each state.

    How many intervals with a bit are open is counted for as many bits at once as fit in an int64.
    """
    some_N = np.flatnonzero(end_N > begin_N)
    keys = _Keys(group_N[some_N], begin_N[some_N], end_N[some_N])
    at_2N = np.concatenate((keys.begin_N, keys.end_N))
    order_2N = np.argsort(at_2N)
    at_2N = at_2N[order_2N]
    sign_2N = np.where(order_2N < some_N.size, np.int8(1), np.int8(-1))
    width = max(int(np.cumsum(sign_2N, dtype=np.int32).max(initial=0)).bit_length(), 1)
    kind_N, bits_K = numbered(bits_N[some_N])
    present = [bit for bit in range(63) if (bits_K >> bit & 1).any()]
    state_2N, bits_B = np.zeros(at_2N.size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for first in range(0, len(present), 62 // width):
        counted = present[first : first + 62 // width]
        ones_K = np.bitwise_or.reduce(
            [(bits_K >> bit & 1) << place * width for place, bit in enumerate(counted)]
        )
        ones_N = ones_K[kind_N]
        count_2N, open_U = numbered(np.cumsum(np.concatenate((ones_N, -ones_N))[order_2N]))
        bits_U = np.bitwise_or.reduce(
            [
                np.where(open_U >> place * width & (1 << width) - 1, np.int64(1) << bit, 0)
                for place, bit in enumerate(counted)
            ]
        )
        state_2N, pair_B = numbered(state_2N * bits_U.size + count_2N)
        bits_B = bits_B[pair_B // bits_U.size] | bits_U[pair_B % bits_U.size]
    state_B, bits_B = numbered(bits_B)  # however many intervals have a bit
    state_2N = state_B[state_2N]
    piece_E = np.flatnonzero((np.diff(at_2N) > 0) & (bits_B[state_2N[:-1]] != 0))
    return keys, at_2N, piece_E, state_2N[piece_E], bits_B


def numbered(values_N: Ints) -> tuple[Ints, Ints]:
    """Numbers from 0 of equal values, and the value of each number; few distinct ones are quick."""
    encoded = pa.array(values_N).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def dense_numbers(values_N: Ints) -> Ints:
    """Numbers from 0 without gaps, in the order of the values."""
    if not values_N.size:
        return values_N
    low = int(values_N.min())
    extent = int(values_N.max()) - low + 1
    if extent > 4 * values_N.size + 65_536:
        return np.unique(values_N, return_inverse=True)[1].ravel().astype(np.int64)
    is_there = np.zeros(extent, dtype=bool)
    is_there[values_N - low] = True
    number: Ints = np.cumsum(is_there)[values_N - low] - 1
    return number


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
    to_W = rank_W * width + (end_W - origin)
    to_N = rank_N * width + (end_N - origin)
    first_N = np.searchsorted(to_W, rank_N * width + (begin_N - origin), side="right")
    count_N = np.ones(rank_N.size, dtype=np.int64)
    beyond = np.flatnonzero(to_N > np.append(to_W, -1)[first_N])  # most lie in one window
    from_W = rank_W * width + (begin_W - origin)
    past = np.searchsorted(from_W, to_N[beyond], side="left")
    count_N[beyond] = np.maximum(past - first_N[beyond], 0)
    interval = np.repeat(np.arange(rank_N.size), count_N)
    offset = np.arange(interval.size) - np.repeat(np.cumsum(count_N) - count_N, count_N)
    window = first_N[interval] + offset
    begin = np.maximum(begin_N[interval], begin_W[window])
    end = np.minimum(end_N[interval], end_W[window])
    keep = (end > begin) & (rank_W[window] == rank_N[interval])
    return interval[keep], window[keep], begin[keep], end[keep]

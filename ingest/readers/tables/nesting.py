"""How deep each span lies on its track: nested or overlapping spans are stacked, never dropped."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_DEPTH = 32_000  # the column is int16
SPANS_AT_ONCE = 1 << 16

# N spans
Ints = npt.NDArray[np.integer]


def depths(track_N: Ints, start_ns_N: Ints, dur_ns_N: Ints) -> npt.NDArray[np.int16]:
    """Depth of every span, 0 outermost; two spans of one depth and track never overlap.

    Properly nested spans get their call depth. Spans that overlap without nesting (kernels of one
    stream under programmatic dependent launch) take the first free lane.
    """
    order = np.lexsort((-dur_ns_N, start_ns_N, track_N))
    depth = np.zeros(len(order), np.int16)
    if not len(order):
        return depth
    borders = np.flatnonzero(np.diff(track_N[order])) + 1
    for part in np.split(order, borders):
        start_ns = start_ns_N[part]
        end_ns = start_ns + dur_ns_N[part]
        if (np.maximum.accumulate(end_ns)[:-1] > start_ns[1:]).any():
            _stack(part, start_ns, end_ns, depth)
    return depth


def _stack(part: Ints, start_ns: Ints, end_ns: Ints, depth: npt.NDArray[np.int16]) -> None:
    """Depths of the spans `part` of one track, in order of start, the longest of a start first."""
    lanes = _Lanes()
    for first in range(0, len(part), SPANS_AT_ONCE):
        piece = slice(first, first + SPANS_AT_ONCE)  # Python's integers are large
        lanes_of_piece = lanes.add(start_ns[piece].tolist(), end_ns[piece].tolist())
        depth[part[piece]] = np.minimum(lanes_of_piece, MAX_DEPTH)


class _Lanes:
    """What is open on one track."""

    def __init__(self) -> None:
        self._open_ends: list[int] = []
        self._crossed = False  # some open span outlives the one it began in

    def add(self, starts_ns: list[int], ends_ns: list[int]) -> list[int]:
        """Lane of each of the next spans."""
        lanes: list[int] = []
        open_ends, crossed = self._open_ends, self._crossed
        for start, end in zip(starts_ns, ends_ns, strict=True):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if crossed and open_ends:
                lane = next((i for i, e in enumerate(open_ends) if e <= start), len(open_ends))
            else:
                crossed = False
                lane = len(open_ends)
            if lane == len(open_ends):
                crossed = crossed or bool(open_ends and end > open_ends[-1])
                open_ends.append(end)
            else:
                open_ends[lane] = end
            lanes.append(lane)
        self._crossed = crossed
        return lanes

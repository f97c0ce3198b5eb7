"""How deep each span lies on its track: nested or overlapping spans are stacked, never dropped."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_DEPTH = 32_000  # the column is int16

# N spans
Ints = npt.NDArray[np.integer]


def depths(track_N: Ints, start_ns_N: Ints, dur_ns_N: Ints) -> npt.NDArray[np.int16]:
    """Depth of every span, 0 outermost; two spans of one depth and track never overlap.

    Properly nested spans get their call depth. Spans that overlap without nesting (kernels of one
    stream under programmatic dependent launch) take the first free lane.
    """
    order = np.lexsort((-dur_ns_N, start_ns_N, track_N))
    found = np.zeros(len(order), np.int16)
    if not len(order):
        return found
    tracks = track_N[order]
    borders = np.flatnonzero(np.diff(tracks)) + 1
    for part in np.split(order, borders):
        start_ns = start_ns_N[part]
        end_ns = start_ns + dur_ns_N[part]
        if (np.maximum.accumulate(end_ns)[:-1] > start_ns[1:]).any():
            found[part] = np.minimum(_lanes(start_ns.tolist(), end_ns.tolist()), MAX_DEPTH)
    return found


def _lanes(starts_ns: list[int], ends_ns: list[int]) -> list[int]:
    """Lane of each span of one track, in order of start, the longest of a start first."""
    lanes: list[int] = []
    open_ends: list[int] = []
    crossed = False  # some span outlived the one it began in
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
    return lanes

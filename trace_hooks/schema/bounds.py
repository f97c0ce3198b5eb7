"""Numbers that no job has: sums of them exceed int64, or a list with a place for each takes hours.

A server refuses a segment with such a number, and the indexer sets it aside.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_RANKS = 1 << 24

LARGEST = 1 << 62
"""Of steps, moments and durations, in ns until the year 2116: sums of two fit in int64."""

MAX_BYTES = 1 << 53
"""Of one operation."""

_BOUNDS = {
    "rank": MAX_RANKS - 1,
    "num_bytes": MAX_BYTES,
    "offset_ns": 1 << 61,
    "drift_ppb": 100_000_000,
    **dict.fromkeys(("step", "ts_ns", "enqueue_ns", "start_ns", "end_ns", "dur_ns"), LARGEST),
}
"""Column -> largest absolute value that the rollups can sum up."""

_SUMMED_UP = {
    "spans": ("rank", "step", "ts_ns", "dur_ns"),
    "steps": ("rank", "step", "start_ns", "dur_ns"),
    "collectives": ("rank", "step", "enqueue_ns", "start_ns", "end_ns", "num_bytes"),
    "groups": ("rank", "step"),
    "clocks": ("rank", "step", "ts_ns", "offset_ns", "drift_ppb"),
}
"""Table -> columns that the rollups sum up, or go through; of others: rank."""


def beyond_bounds(table: str, extent_of: Callable[[str], tuple[int, int]]) -> str:
    """What is wrong with the first number of a file that no job has, as the end of a sentence about
    the file; '' if nothing. `extent_of`: least and greatest value of a column; it may raise.
    """
    for name in _SUMMED_UP.get(table, ("rank",)):
        for value in extent_of(name):
            if abs(value) > _BOUNDS[name]:
                return f"has {name} {value}; no job has one beyond {_BOUNDS[name]}"
    return ""

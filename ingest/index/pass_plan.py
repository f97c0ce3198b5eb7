"""How a pass over many steps is cut, so that what is in memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingest.query.manifest import Connection
from trace_hooks.schema.bundles import RANK_BAND

BAND = RANK_BAND
"""As many ranks as a merged file holds."""

ROWS_AT_ONCE = 250_000
"""Spans, or steps of ranks, summed up at once; about 500 bytes each."""

COLLECTIVES_AT_ONCE = 1_000_000
"""Rows of collectives put together in DuckDB at once; about 500 bytes each."""

COLLECTIVES_ON_DISK = 50_000_000
"""Rows of collectives divided on disk at once; about 30 bytes each."""


@dataclass(frozen=True)
class Tile:
    """Some steps of some neighbouring ranks of one attempt; ends included."""

    attempt: int
    rank_min: int
    rank_max: int
    step_min: int
    step_max: int

    @property
    def values(self) -> dict[str, int]:
        """The tile as SQL parameters."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Part:
    """Some steps of all ranks of one attempt, which are summed up one tile after the other."""

    attempt: int
    step_min: int
    step_max: int
    ranks_at_once: int
    num_collectives: float
    """Estimate of the rows of collectives it reads: of its steps and of one step on either side."""


_VOLUME = """
SELECT greatest(coalesce(sum(num_rows) FILTER (table_name = 'spans'), 0),
        coalesce(sum(num_rows) FILTER (table_name = 'steps'), 0)),
    coalesce(sum(num_rows) FILTER (table_name = 'collectives'), 0), min(step_min), max(step_max),
    sum(num_rows * (step_max - step_min + 1e0)) / sum(num_rows)
FROM files WHERE attempt = ? AND table_name IN ('spans', 'steps', 'collectives')
    AND problem IS NULL AND num_rows > 0
"""


_FIRST_TRAINED = "SELECT min(step) FROM step_rows WHERE attempt = ? AND step >= 0"


def rank_extent(connection: Connection, attempt: int) -> tuple[int, int]:
    """First and last rank with rows; the last comes before the first: none has."""
    low, high = connection.execute(
        "SELECT min(rank_min), max(rank_max) FROM files"
        " WHERE attempt = ? AND problem IS NULL AND num_rows > 0 AND rank_max >= 0",
        [attempt],
    ).fetchall()[0]
    return (0, -1) if low is None else (max(low, 0), high)


def parts_of(connection: Connection, attempt: int, low: int, high: int) -> Iterator[Part]:
    """Cut steps [low, high] by the mean number of rows of a rank's step. Steps that the job did not
    have, as between its start and the step from which it resumed, count for nothing there.

    Each part reads its files again, and the collectives of two more steps. So it has as many steps
    as a file has, or, where that is more, as fit in memory of BAND ranks.
    """
    rows, collectives, first, last, steps_of_file = connection.execute(
        _VOLUME, [attempt]
    ).fetchall()[0]
    if first is None:
        first, last, steps_of_file = low, high, 1.0
    elif first < 0:
        first = connection.execute(_FIRST_TRAINED, [attempt]).fetchall()[0][0] or first
    first_rank, last_rank = rank_extent(connection, attempt)
    ranks, steps = max(last_rank - first_rank + 1, 1), max(last - first + 1, 1)
    collectives_of_step = collectives / steps
    filled = max(rows / ROWS_AT_ONCE, collectives / COLLECTIVES_AT_ONCE, 1e-9)
    most = ranks * steps / filled  # so many steps of ranks fit in memory
    steps_at_once = max(most / min(ranks, BAND), min(steps_of_file, most))
    on_disk = COLLECTIVES_ON_DISK / max(collectives_of_step, 1e-9) - 2
    steps_at_once = max(int(min(steps_at_once, on_disk, high - low + 1)), 1)
    ranks_at_once = _even(min(most / steps_at_once, ranks + BAND))
    for start, end in _cut(low, high, first, last, steps_at_once):
        num_collectives = min(collectives_of_step * (end - start + 3), collectives)
        yield Part(attempt, start, end, ranks_at_once, num_collectives)


def _cut(low: int, high: int, first: int, last: int, at_once: int) -> Iterator[tuple[int, int]]:
    """Steps [low, high] in pieces; what is far outside of [first, last] is one piece."""
    begin = first if first - low > at_once else low
    end = last if high - last > at_once else high
    if low < begin:
        yield low, min(begin - 1, high)
    for start in range(begin, min(end, high) + 1, at_once):
        yield start, min(start + at_once - 1, end, high)
    if end < high:
        yield max(end + 1, low), high


def _even(ranks: float) -> int:
    """At most so many ranks, but one: whole bands, or a part of one that divides it evenly."""
    if ranks >= BAND:
        return int(ranks) // BAND * BAND
    return 1 << max(int(ranks).bit_length() - 1, 0)


def tiles_of(connection: Connection, part: Part) -> Iterator[Tile]:
    """Its tiles; each lies in one band, or has whole bands."""
    first, last = rank_extent(connection, part.attempt)
    first -= first % min(part.ranks_at_once, BAND)
    for rank in range(first, last + 1, part.ranks_at_once):
        end = rank + part.ranks_at_once - 1
        yield Tile(part.attempt, rank, end, part.step_min, part.step_max)

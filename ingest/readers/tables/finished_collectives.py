"""Collectives that are over, from their kernels: rows and groups of one rank, members of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from ingest.readers.base import Sink
from ingest.readers.tables.rows import rows
from ingest.readers.tables.span_list import ROWS_AT_ONCE

UNMATCHED_SEQ = 1 << 40
"""Numbers from here on belong to messages whose number on the other side is not known."""


class Done(NamedTuple):
    """A collective with its end; columns of `collectives`."""

    group_id: int
    seq: int
    op: str
    dtype: str
    num_bytes: int
    enqueue_ns: int
    start_ns: int
    end_ns: int


class Communicator(NamedTuple):
    """A group of `groups`; members are global ranks in its order, empty where unknown."""

    group_id: int
    name: str
    axis: str
    ranks: tuple[int, ...]


def write_collectives(
    sink: Sink, rank: int, source: str, calls: Iterable[Done], comms: Iterable[Communicator]
) -> None:
    """Rows of one rank's collectives, in the order in which they began, and of their groups."""
    in_order = sorted(calls, key=lambda call: call.start_ns)
    shared = {"rank": rank, "state": "completed", "source": source}
    for start in range(0, len(in_order), ROWS_AT_ONCE):
        part = in_order[start : start + ROWS_AT_ONCE]
        columns = shared | _columns(Done._fields, part)
        sink.add_rows("collectives", rank, rows("collectives", len(part), columns))
    groups = list(comms)
    if groups:
        columns = {"rank": rank, **_columns(Communicator._fields, groups)}
        sink.add_rows("groups", rank, rows("groups", len(groups), columns))


class Members:
    """Who is in each communicator, from the ranks that were seen in it."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._seen: dict[Hashable, dict[int, int]] = defaultdict(dict)
        self._sizes: dict[Hashable, int] = {}

    def see(self, comm: Hashable, size: int, position: int, rank: int) -> None:
        """Note that global rank `rank` is number `position` of a communicator of `size`."""
        self._seen[comm][position] = rank
        self._sizes[comm] = size

    def of(self, comm: Hashable) -> tuple[int, ...]:
        """Global ranks in the communicator's order; empty where a file that names them is missing.

        One as large as the job holds all ranks, also where half of them, or fewer, were not seen.
        """
        seen, size = self._seen[comm], self._sizes[comm]
        if len(seen) == size:
            return tuple(seen[position] for position in sorted(seen))
        return tuple(range(size)) if size == self._world_size <= 2 * len(seen) else ()


def _columns(names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return dict(zip(names, map(list, zip(*records, strict=True)), strict=True))

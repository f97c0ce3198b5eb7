"""Numbers of collectives of several files of a rank, each of which counts its own from 0.

torch.profiler writes a file for each cycle of its schedule. Where PyTorch wrote no numbers, those
of a file are positions in it, which members share if their files show the same steps; those of
files that show other steps have to differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.readers.kineto.collectives import Instance
from ingest.readers.kineto.events import Window
from ingest.readers.tables.staged_rows import StagedRows

NUMBERS_APART = 10**9
"""Between the numbers of two stretches of steps: no file has so many collectives."""
_MESSAGES = ("send", "recv")
"""No array: what Arrow allocates at import, 1 GiB of addresses, counts towards the limit of a
reader's memory."""


class Stretches:
    """Stretches of steps that files show, numbered as they come."""

    def __init__(self) -> None:
        self._extents: list[tuple[int, int]] = []
        self._ranks: list[set[int]] = []

    def first_number(self, rank: int, windows: Sequence[Window]) -> int:
        """From where a file's collectives are numbered: files with steps in common are of one
        stretch, but no two of one rank; a file without steps counts to the first.
        """
        if not windows:
            return 0
        low, high = min(w.step for w in windows), max(w.step for w in windows)
        for number, ((first, last), ranks) in enumerate(
            zip(self._extents, self._ranks, strict=True)
        ):
            if low <= last and first <= high and rank not in ranks:
                self._extents[number] = min(low, first), max(high, last)
                ranks.add(rank)
                return number * NUMBERS_APART
        self._extents.append((low, high))
        self._ranks.append({rank})
        return (len(self._extents) - 1) * NUMBERS_APART


def counted_groups(collectives: Iterable[Instance]) -> tuple[int, ...]:
    """Groups whose collectives have their positions as numbers; messages always do."""
    counted = (c for c in collectives if c.is_counted and c.op not in ("send", "recv"))
    return tuple(sorted({c.group.group_id for c in counted}))


def count_from(first_number: int, rows: StagedRows, groups: Sequence[int]) -> None:
    """Have staged collectives of these groups, and messages, count from there instead of 0. Raises
    UserError where they cannot be written.
    """
    of_groups = pa.array(groups, pa.int64())

    def collectives(table: pa.Table) -> pa.Table:
        is_message = pc.is_in(table["op"].cast(pa.string()), pa.array(_MESSAGES))
        is_counted = pc.or_(is_message, pc.is_in(table["group_id"], of_groups))
        return _moved(table, "seq", is_counted, first_number)

    def spans(table: pa.Table) -> pa.Table:
        is_message = pc.greater_equal(table["peer"], 0)
        is_counted = pc.or_(is_message, pc.is_in(table["group_id"], of_groups))
        return _moved(table, "coll_seq", is_counted, first_number)

    rows.revise("collectives", collectives)
    rows.revise("spans", spans)


def _moved(table: pa.Table, name: str, is_counted: pa.ChunkedArray, by: int) -> pa.Table:
    """With greater numbers in the rows that are counted and have one."""
    numbers, index = table[name], table.schema.get_field_index(name)
    is_moved = pc.and_(is_counted, pc.greater_equal(numbers, 0))
    moved = pc.if_else(is_moved, pc.add(numbers, by), numbers)
    return table.set_column(index, table.schema.field(index), moved)

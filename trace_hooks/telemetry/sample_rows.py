"""Samples on their way to a file: columns of `host_metrics`, one value a row, in little memory."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 200_000
"""Rows that are kept while the run is not known, or its folder cannot be written; then the oldest
are dropped.
"""


class Series(NamedTuple):
    """What a value is of."""

    device: str
    metric: str
    scope: str
    rank: int


Row = tuple[int, int, Series, float, str]
"""Monotonic ns, step, series, value, state."""


class SampleRows:
    """Rows that wait to be written. Not thread-safe."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque(maxlen=MOST_ROWS)

    def add(self, row: Row) -> None:
        """One more row."""
        self._rows.append(row)

    def take(self) -> list[Row]:
        """All rows so far."""
        rows = list(self._rows)
        self._rows.clear()
        return rows


def table_of(rows: Sequence[Row], host: str, attempt: int, rank: int, offset_ns: int) -> pa.Table:
    """Rows of `host_metrics` of one rank; `offset_ns`: from the monotonic clock to Unix.

    Arrays are made of buffers: pa.array imports pandas where it is installed, which costs half a
    second and 50 MB.
    """
    import pyarrow as pa

    from trace_hooks.schema import TABLES

    number = len(rows)
    series = [row[2] for row in rows]

    def numbers(code: str, kind: pa.DataType, values: Iterable[float]) -> pa.Array:
        buffer = pa.py_buffer(struct.pack(f"{number}{code}", *values))
        return pa.Array.from_buffers(kind, number, [None, buffer])

    def words(texts: Iterable[str]) -> pa.Array:
        codes: dict[str, int] = {}
        code = numbers("i", pa.int32(), [codes.setdefault(t, len(codes)) for t in texts])
        return pa.DictionaryArray.from_arrays(code, _strings(list(codes)))

    columns = {
        "attempt": numbers("h", pa.int16(), repeat(attempt, number)),
        "rank": numbers("i", pa.int32(), repeat(rank, number)),
        "step": numbers("q", pa.int64(), (row[1] for row in rows)),
        "host": words(repeat(host, number)),
        "ts_ns": numbers("q", pa.int64(), (row[0] + offset_ns for row in rows)),
        "metric": words(one.metric for one in series),
        "value": numbers("d", pa.float64(), (row[3] for row in rows)),
        "device": words(one.device for one in series),
        "state": words(row[4] for row in rows),
        "scope": words(one.scope for one in series),
    }
    schema = TABLES["host_metrics"].schema
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _strings(texts: Sequence[str]) -> pa.Array:
    """An array of texts."""
    import pyarrow as pa

    parts = [text.encode("utf-8", "replace") for text in texts]
    ends = list(accumulate((len(part) for part in parts), initial=0))
    offsets = pa.py_buffer(struct.pack(f"{len(ends)}i", *ends))
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, offsets, pa.py_buffer(b"".join(parts))]
    )

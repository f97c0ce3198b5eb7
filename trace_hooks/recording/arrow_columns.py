"""Turns what the recorder holds into Arrow tables, column by column.

Tables come out without attempt and rank: those may not be known yet when rows are converted;
`placed` fills them in. Monotonic times become Unix ns here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.ma
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute  # like numpy.ma: the first conversion would import it and hold the GIL

from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.recorder import SPAN_FIELDS, CollectiveRow, Extra, Site, SpanRow
from trace_hooks.schema import TABLES, TEXT, UNKNOWN

pa.array([0])  # imports pandas where it is installed, as the first conversion would

PIECE_SPANS = 16_384
"""Spans converted at once: keeps one numpy call, which holds the GIL, below a millisecond."""

_AT = {name: index for index, name in enumerate(SpanRow._fields)}
_WHERE = ("attempt", "rank")
_POINTS_IN_TIME = ("ts_ns", "start_ns", "enqueue_ns", "end_ns")
_NO_EXTRA = Extra()


def span_table(
    flat: list[Any], sites: Sequence[Site], track_of: Callable[[int], str], anchor: Anchor
) -> pa.Table:
    """Rows of `spans` from flat SpanRows; `track_of` names the track of a thread."""
    num_rows = len(flat) // SPAN_FIELDS

    def ints(field: str) -> npt.NDArray[np.int64]:
        return _ints(flat[_AT[field] :: SPAN_FIELDS])

    site, begin_ns = ints("site"), ints("begin_ns")
    occurring = np.flatnonzero(np.bincount(site))  # a job may name each span differently
    site, sites = np.searchsorted(occurring, site), [sites[number] for number in occurring.tolist()]
    extras = flat[_AT["extra"] :: SPAN_FIELDS]
    plain = extras.count(None) == num_rows
    if not plain:
        extras = [extra or _NO_EXTRA for extra in extras]

    def extra_ints(field: int) -> npt.NDArray[np.int64]:
        if plain:
            return np.full(num_rows, _NO_EXTRA[field], dtype=np.int64)
        return _ints([extra[field] for extra in extras])

    threads, thread = np.unique(ints("thread"), return_inverse=True)
    columns: dict[str, Any] = {
        "step": ints("step"),
        "ts_ns": begin_ns + anchor.offset_ns,
        "dur_ns": ints("end_ns") - begin_ns,
        "cpu_ns": ints("cpu_ns"),
        "kind": _of_site(site, [s.kind for s in sites]),
        "name": _of_site(site, [s.name for s in sites]),
        "track": _of_site(thread, [track_of(ident) for ident in threads.tolist()]),
        "depth": ints("depth"),
        "microbatch": ints("microbatch"),
        "chunk": np.array([s.chunk for s in sites], dtype=np.int64)[site],
        "recompute": np.frombuffer(bytes(flat[_AT["recompute"] :: SPAN_FIELDS]), dtype=np.bool_),
        "group_id": extra_ints(0),
        "coll_seq": extra_ints(1),
        "peer": extra_ints(2),
        "num_bytes": extra_ints(3),
        "mode": _of_site(site, [s.mode for s in sites]),
        "args": None if plain else [extra.args for extra in extras],
    }
    return _table("spans", columns, num_rows)


def _ints(values: Sequence[int]) -> npt.NDArray[np.int64]:
    """Array of Python ints; through struct it holds the GIL for a third of np.array's time."""
    return np.frombuffer(struct.pack(f"{len(values)}q", *values), dtype=np.int64)


def _of_site(site: npt.NDArray[np.int64], texts: list[str]) -> pa.DictionaryArray:
    """Dictionary column of each span's site, holding only the texts that occur, each once."""
    words = sorted({texts[index] for index in np.flatnonzero(np.bincount(site)).tolist()})
    codes = {word: code for code, word in enumerate(words)}
    code_of_site = np.array([codes.get(text, 0) for text in texts], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(code_of_site[site], words)


def collective_table(rows: Sequence[CollectiveRow], anchor: Anchor) -> pa.Table:
    """Rows of `collectives`; a time of -1 (not yet, not known) stays -1."""
    fields = list(zip(*rows, strict=True))
    columns: dict[str, Any] = {}
    for name, values in zip(CollectiveRow._fields, fields, strict=True):
        if name in _POINTS_IN_TIME:
            times = _ints(values)
            columns[name] = np.where(times >= 0, times + anchor.offset_ns, UNKNOWN)
        else:
            columns[name] = _ints(values) if isinstance(values[0], int) else values
    return _table("collectives", columns, len(rows))


def row_table(name: str, rows: Sequence[Mapping[str, Any]], anchor: Anchor) -> pa.Table:
    """Rows of a rare table. Columns a row leaves out are -1, empty or null.

    Raises ValueError, OverflowError or an Arrow error for a column or a value the table cannot
    hold.
    """
    known = {column.name for column in _columns_of(name)}
    unknown = {key for row in rows for key in row} - known
    if unknown:
        raise ValueError(f"the table {name} has no column {', '.join(sorted(unknown))}")
    columns: dict[str, Any] = {}
    for column in _columns_of(name):
        default = _default(column.type) if not column.nullable else None
        values = [row.get(column.name, default) for row in rows]
        if column.name in _POINTS_IN_TIME:
            values = [UNKNOWN if v is None or v < 0 else anchor.unix_ns(v) for v in values]
        columns[column.name] = values
    return _table(name, columns, len(rows))


def rows_of_columns(name: str, columns: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    """Rows of a table from arrays, one for each of its columns; times are Unix ns already."""
    needed = {column.name: columns[column.name] for column in _columns_of(name)}
    return _table(name, needed, len(next(iter(needed.values()))))


def good_rows(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    anchor: Anchor,
    on_bad: Callable[[Exception], None],
) -> pa.Table | None:
    """`row_table` of those rows that fit; `on_bad` gets the error of each other one."""
    try:
        return row_table(name, rows, anchor)
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        if len(rows) == 1:
            on_bad(error)
            return None
    halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
    tables = [t for half in halves if (t := good_rows(name, half, anchor, on_bad)) is not None]
    return pa.concat_tables(tables).unify_dictionaries() if tables else None


def _default(kind: pa.DataType) -> Any:
    if kind == TEXT:
        return ""
    if pa.types.is_list(kind):
        return []
    return UNKNOWN


@cache
def _columns_of(name: str) -> tuple[Any, ...]:
    return tuple(c for c in TABLES[name].columns if c.name not in _WHERE)


def _table(name: str, columns: Mapping[str, Any], num_rows: int) -> pa.Table:
    arrays = []
    for column in _columns_of(name):
        values = columns[column.name]
        if values is None:
            arrays.append(pa.nulls(num_rows, column.type))
        elif isinstance(values, pa.DictionaryArray):
            arrays.append(_of_type(values, column.type))
        elif isinstance(values, np.ndarray):
            arrays.append(_of_type(pa.array(values), column.type))
        else:
            arrays.append(pa.array(values, type=column.type))
    return pa.Table.from_arrays(arrays, schema=_schema_of(name))


def _of_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type == wanted else values.cast(wanted)


@cache
def _schema_of(name: str) -> pa.Schema:
    return pa.schema([f for f in TABLES[name].schema if f.name not in _WHERE])


def placed(name: str, tables: Sequence[pa.Table], attempt: int, rank: int) -> pa.Table:
    """One table with the schema's columns from converted ones, attempt and rank filled in."""
    schema = TABLES[name].schema
    rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
    where = {"attempt": attempt, "rank": rank}
    arrays = [
        pa.repeat(pa.scalar(where[field.name], field.type), rows.num_rows)
        if field.name in where
        else rows.column(field.name)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)

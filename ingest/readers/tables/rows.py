"""Rows of the schema's tables from columns, with defaults for what a file does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import (
    BEFORE_FIRST_STEP,
    SCHEMA_VERSION,
    TABLES,
    UNKNOWN,
    Column,
    RankInfo,
)
from trace_hooks.schema.bounds import MAX_BYTES

_DEFAULTS: dict[str, Any] = {
    "attempt": 0,
    "step": BEFORE_FIRST_STEP,
    "recompute": False,
    "group_id": 0,
    "depth": 0,
    "mode": "imported",
}


class Coded(NamedTuple):
    """A text column as codes into a list of distinct texts."""

    codes: npt.NDArray[np.integer[Any]]
    texts: Sequence[str | None]
    """None: the row has no text"""


def rows(table: str, num_rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """Rows of `table`; a value is an array, a list, Coded, or one value for all rows.

    Columns not given get "not known": -1 for numbers, null where the schema allows it; so does a
    number of bytes that no collective has, for which the indexer would set the file aside.
    """
    schema = TABLES[table].schema
    arrays = [_array(column, num_rows, columns) for column in TABLES[table].columns]
    if table == "collectives":
        place = schema.get_field_index("num_bytes")
        is_known = pc.less_equal(arrays[place], MAX_BYTES)
        arrays[place] = pc.if_else(is_known, arrays[place], pa.scalar(UNKNOWN, pa.int64()))
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(column: Column, num_rows: int, columns: Mapping[str, Any]) -> pa.Array:
    if column.name in columns:
        value = columns[column.name]
    elif column.nullable:
        return pa.nulls(num_rows, column.type)
    else:
        value = _DEFAULTS.get(column.name, "" if _is_text(column) else UNKNOWN)
    if isinstance(value, Coded):
        return _dictionary(value)
    if isinstance(value, str) and _is_text(column):
        codes = pa.array(np.zeros(num_rows, np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([utf8(value)], pa.string()))
    if isinstance(value, bool | int | float):
        return pa.repeat(pa.scalar(value, column.type), num_rows)
    if _is_text(column):
        fit = {text: text if text is None else utf8(text) for text in set(value)}
        value = [fit[text] for text in value]
    return pa.array(value, column.type)


def utf8(text: str) -> str:
    """The text, without what no file can hold: JSON may spell half a pair of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _is_text(column: Column) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _dictionary(value: Coded) -> pa.Array:
    """Only the texts that occur: a dictionary is written whole with every piece of a table."""
    used, codes = np.unique(value.codes, return_inverse=True)
    texts = [value.texts[code] for code in used.tolist()]
    is_null = np.array([text is None for text in texts], np.bool_)[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=is_null if is_null.any() else None),
        pa.array([utf8(text or "") for text in texts], pa.string()),
    )


def rank_info(
    rank: int,
    *,
    world_size: int = UNKNOWN,
    layout: ParallelLayout | None = None,
    host: str = "",
    pid: int = UNKNOWN,
    device: str = "",
    started_ns: int = 0,
    ended_ns: int = 0,
) -> RankInfo:
    """What an imported file holds about a rank; world size and pid are -1 unknown."""
    inside = layout is not None and 0 <= rank < layout.world_size
    return RankInfo(
        schema=SCHEMA_VERSION,
        attempt=0,
        rank=rank,
        world_size=world_size,
        host=utf8(host),
        pid=pid,
        local_rank=UNKNOWN,
        device=utf8(device),
        device_uuid="",
        started_ns=started_ns,
        layout=None if layout is None else layout.to_json(),
        coords=layout.coords(rank) if layout is not None and inside else None,
        end={"ts_ns": ended_ns, "status": "finished", "error": None},
        hooks={},
    )

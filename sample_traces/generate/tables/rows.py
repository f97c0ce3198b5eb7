"""Rows of one table, collected as arrays and turned into Arrow without a loop over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sample_traces.generate.durations import Ns
from trace_hooks.schema import SPAN_DEFAULTS, TABLES, TEXT, UNKNOWN

_DEFAULTS: dict[str, Any] = {
    **SPAN_DEFAULTS,
    "step": UNKNOWN,
    "track": "main",
    "tag": UNKNOWN,
    "dtype": "bfloat16",
    "state": "completed",
    "source": "wrapper",
}
"""Values of columns that a row does not name; nullable ones are null."""

_MOMENTS = ("ts_ns", "start_ns", "end_ns", "enqueue_ns")


class Rows:
    """Collects blocks of rows of one table; times go in on rank 0's clock.

    `offset_R`: what the clock of each global rank is off (Clocks.offset_R). `first_step`: number
    of the step that goes in as 0.
    """

    def __init__(self, table: str, offset_R: Ns, attempt: int = 0, first_step: int = 0) -> None:
        self.table = TABLES[table]
        self.offset_R = offset_R
        self.attempt, self.first_step = attempt, first_step
        self.blocks: list[tuple[int, dict[str, Any]]] = []

    def add(self, rank: Any, keep: npt.NDArray[np.bool_] | None = None, **columns: Any) -> None:
        """Add the rows of arrays that broadcast against each other; `keep`: only these.

        A list is the value of a list column in all of these rows.
        """
        rank = np.asarray(rank)
        shape = np.broadcast_shapes(
            rank.shape,
            *(np.shape(value) for value in columns.values() if not isinstance(value, list)),
            () if keep is None else keep.shape,
        )
        chosen = None if keep is None else np.broadcast_to(keep, shape).ravel()
        offset = self.offset_R[rank]
        ready: dict[str, Any] = {}
        for name, value in {"rank": rank, **columns}.items():
            if isinstance(value, (str, list)):
                ready[name] = value
                continue
            if name == "step" and self.first_step:
                value = np.where(np.asarray(value) == UNKNOWN, UNKNOWN, value + self.first_step)
            if name in _MOMENTS:
                value = np.where(np.asarray(value) == UNKNOWN, UNKNOWN, value - offset)
            flat = np.broadcast_to(value, shape).ravel()
            ready[name] = flat if chosen is None else flat[chosen]
        if len(ready["rank"]):
            self.blocks.append((len(ready["rank"]), ready))

    def to_arrow(self) -> pa.Table:
        """All rows, sorted by rank, then time."""
        arrays = [self._column(column.name) for column in self.table.columns]
        table = pa.Table.from_arrays(arrays, schema=self.table.schema)
        by = [name for name in ("rank", "ts_ns", "start_ns", "depth") if name in table.schema.names]
        order = np.lexsort([table[name].to_numpy() for name in reversed(by)])
        return table.take(pa.array(order))

    def _column(self, name: str) -> pa.Array:
        field = self.table.schema.field(name)
        if pa.types.is_dictionary(field.type):
            return self._texts(name, field.nullable)
        if pa.types.is_list(field.type):
            lists = [block[name] for length, block in self.blocks for _ in range(length)]
            return pa.array(lists, field.type)
        if field.nullable and not any(name in block for _, block in self.blocks):
            return pa.nulls(sum(length for length, _ in self.blocks), field.type)
        nothing = np.nan if field.nullable else 0
        default = self.attempt if name == "attempt" else _DEFAULTS.get(name, nothing)
        parts = [np.broadcast_to(block.get(name, default), length) for length, block in self.blocks]
        values = np.concatenate(parts) if parts else np.empty(0)
        plain = values.astype(field.type.to_pandas_dtype())
        return pa.array(plain, field.type, from_pandas=field.nullable)  # NaN: it is not known

    def _texts(self, name: str, nullable: bool) -> pa.Array:
        """Dictionary column; a block has one text for all its rows, or an index into `words`."""
        words: dict[str, int] = {}
        codes, missing = [], []
        for length, block in self.blocks:
            word = block.get(name, _DEFAULTS.get(name))
            missing.append(np.full(length, word is None))
            codes.append(np.full(length, words.setdefault(word or "", len(words)), np.int32))
        index = np.concatenate(codes) if codes else np.empty(0, np.int32)
        mask = np.concatenate(missing) if nullable and missing else None
        dictionary = pa.array(list(words), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(index, mask=mask), dictionary).cast(TEXT)

"""Sums of some steps of a block of ranks: what executors compute in numpy, as DuckDB's engine does.

SQL has found the rows; what an instant belongs to (trace_hooks/step_sums) is not said in SQL.
Suffixes: C cells, as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.intervals import Ints
from trace_hooks.schema import KINDS
from trace_hooks.step_sums.rollups import (
    Rollups,
    Spans,
    Transfers,
    Windows,
    cells,
    complete_windows,
    rollups,
)

WINDOW, TRANSFER, LATE, KNOWN = range(4)
"""What a mark is: a step's window, a transfer, a wait for a late member, or a step of a rank whose
transfers are all known.
"""


_PLACE = ("rank", "step", "begin_ns", "end_ns")


@dataclass(frozen=True)
class Part:
    """Some steps of all ranks of one attempt; ends included."""

    attempt: int
    step_min: int
    step_max: int
    ranks_at_once: int
    relative: bool


def block_rows(part: Part, schema: pa.Schema, spans: pa.Table, marks: pa.Table) -> pa.Table:
    """Rows of step_rollup (kind is NULL) and of kind_rollup of a block, without the attempt.

    `marks`: what, rank, step, begin_ns, end_ns. Where times are too far apart there is one row,
    with the problem.
    """
    try:
        found = _rollups(part, spans, marks)
    except ValueError as error:
        return _filled(schema, {"problem": pa.array([_problem(part, spans, marks, error)])})
    tables = []
    for columns in (found.steps, found.kinds):
        step = columns["step"]
        is_inside = (step >= part.step_min) & (step <= part.step_max)
        stored = {name: _stored(name, values[is_inside]) for name, values in columns.items()}
        tables.append(_filled(schema, stored))
    return pa.concat_tables(tables)


def _rollups(part: Part, spans: pa.Table, marks: pa.Table) -> Rollups:
    spans = spans.sort_by([("rank", "ascending"), ("ts_ns", "ascending"), ("dur_ns", "descending")])
    marks = marks.sort_by([("rank", "ascending"), ("step", "ascending"), ("begin_ns", "ascending")])
    found = Spans.from_arrow(spans) if spans.num_rows else Spans.none()
    windows = _windows(_only(marks, WINDOW))
    windows = complete_windows(windows, found, part.step_min, part.step_max)
    known = _only(marks, KNOWN)
    known_C = np.zeros(windows.rank_C.size, dtype=np.bool_)
    cell = cells(windows, _ints(known, "rank"), _ints(known, "step"))
    known_C[cell[cell >= 0]] = True
    return rollups(found, windows, _transfers(_only(marks, TRANSFER, LATE)), part.relative, known_C)


def _only(marks: pa.Table, *wanted: int) -> pa.Table:
    return marks.filter(pc.is_in(marks["what"], pa.array(wanted, marks.schema.field("what").type)))


def _windows(rows: pa.Table) -> Windows:
    rank, step, begin, end = (_ints(rows, name) for name in _PLACE)
    return Windows(rank, step, begin, end, np.ones(rows.num_rows, dtype=np.bool_))


def _transfers(rows: pa.Table) -> Transfers:
    rank, step, begin, end = (_ints(rows, name) for name in _PLACE)
    return Transfers(rank, step, begin, end, _ints(rows, "what") == LATE)


def _ints(rows: pa.Table, name: str) -> Ints:
    return np.asarray(rows.column(name).to_numpy(), dtype=np.int64)


def _stored(name: str, values: npt.NDArray[Any]) -> pa.Array:
    """Kinds by name; NULL for times that can be unknown and are -1."""
    if name == "kind":
        is_number = np.issubdtype(values.dtype, np.integer)
        return pa.array(np.array(KINDS)[values] if is_number else values, pa.string())
    can_be_unknown = name.startswith("bubble") or name.endswith("cpu_ns")
    return pa.array(values, mask=values.astype(np.int64) < 0 if can_be_unknown else None)


def _filled(schema: pa.Schema, columns: dict[str, pa.Array]) -> pa.Table:
    """The columns as the schema has them; others are NULL."""
    num_rows = len(next(iter(columns.values())))
    return pa.table(
        [
            columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _problem(part: Part, spans: pa.Table, marks: pa.Table, error: ValueError) -> str:
    ranks = np.concatenate((_ints(spans, "rank"), _ints(marks, "rank")))
    return f"steps {part.step_min} to {part.step_max} of ranks from {int(ranks.min())}: {error}"

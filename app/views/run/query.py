"""Answers of queries for the page and as CSV; saved queries as forms."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ingest.errors import UserError
from ingest.exports.csv_cells import harmless
from ingest.query.saved_queries import saved_queries
from ingest.run import TIME_LIMIT_S, Run
from ingest.stopping import Interrupted, Stop

MAX_ROWS = 10_000
"""Rows sent to the page; CSV contains all rows."""
_MOST_BYTES = 32 << 20
"""Memory of the page's rows; fewer than MAX_ROWS are sent if they need more."""
COUNT_FOR_S = 5.0
"""The rows beyond those of the page are counted for at most this long."""
CSV_LIMIT_S = 600.0
NOW = "now_ns"
"""Parameter with the server's time as default."""
_LONGEST_CELL = 500
_SAFEST = 2**53

Query = tuple[str, dict[str, Any] | None]
"""SQL and its values; None: the user wrote the SQL."""


@dataclass(frozen=True)
class Column:
    """A column of an answer. kind: int, float, bool, time or text."""

    name: str
    kind: str


@dataclass(frozen=True)
class Answer:
    """An answer as the page shows it."""

    columns: list[Column]
    rows: list[list[Any]]
    """at most MAX_ROWS; whole numbers beyond 2^53 and numbers that are not finite as text"""
    num_rows: int
    """rows counted"""
    is_counted: bool
    """whether num_rows is the total"""
    seconds: float


def questions() -> list[dict[str, Any]]:
    """Every saved query with its documentation, JSON-able."""
    return [
        {
            "name": query.name,
            "doc": query.doc,
            "parameters": [asdict(parameter) for parameter in query.parameters],
            "columns": [list(column) for column in query.columns],
            "empty": query.empty,
        }
        for query in saved_queries().values()
    ]


def prepared(run: Run, name: str | None, args: Mapping[str, str]) -> Query:
    """The saved query `name` with `args`; raises UserError."""
    if not name:
        raise UserError("no query was given; choose a saved query, or send SQL by POST")
    query = saved_queries().get(name)
    wants_now = query is not None and any(p.name == NOW for p in query.parameters)
    values = {NOW: time.time_ns(), **args} if wants_now else dict(args)
    return run.prepared(name, **values)


def answered(
    run: Run,
    query: Query,
    stop: Stop | None = None,
    limit_s: float = TIME_LIMIT_S,
    session: str | None = None,
) -> Answer:
    """The first rows of a query and their total number; raises UserError.

    `session`: the session that sent the SQL (Run.sql_reading).
    """
    begun = time.monotonic()
    page = _Page()
    try:
        with _reading(run, query, limit_s, stop, session) as reader:
            page.take(reader, time.monotonic)
    except Interrupted:
        if not page.is_full or (stop is not None and stop.called):
            raise
    return Answer(page.columns, page.rows, page.num_rows, page.is_counted, time.monotonic() - begun)


def _reading(
    run: Run, query: Query, limit_s: float, stop: Stop | None, session: str | None = None
) -> AbstractContextManager[pa.RecordBatchReader]:
    text, values = query
    if values is None:
        return run.sql_reading(text, limit_s, stop, session=session)
    return run.reading(text, values, limit_s, stop)


class _Page:
    """The first rows, and the number of rows counted so far."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.rows: list[list[Any]] = []
        self.num_rows = 0
        self.is_counted = False
        self._num_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it has as many rows as are sent."""
        return len(self.rows) >= MAX_ROWS or self._num_bytes >= _MOST_BYTES

    def take(self, reader: pa.RecordBatchReader, now_s: Callable[[], float]) -> None:
        """Read to the end, or until counting took too long."""
        self.columns = [Column(field.name, _kind(field.type)) for field in reader.schema]
        count_until_s = math.inf
        for batch in reader:
            if not self.is_full:
                self._add(batch.slice(0, MAX_ROWS - len(self.rows)))
            elif count_until_s == math.inf:
                count_until_s = now_s() + COUNT_FOR_S
            self.num_rows += batch.num_rows
            if now_s() > count_until_s:
                return
        self.is_counted = True

    def _add(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            if self.is_full:
                return
            self.rows.append(row)
            self._num_bytes += sum(map(sys.getsizeof, row))


def _rows(batch: pa.RecordBatch) -> list[list[Any]]:
    columns = [[_cell(value) for value in _values(column)] for column in batch.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "int"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    return "time" if pa.types.is_temporal(kind) else "text"


def _values(column: pa.Array) -> list[Any]:
    """Python values; as text if Python cannot express them (years beyond 9999, infinite dates)."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = column.cast(pa.string()).to_pylist()
    kind = _kind(column.type)
    if pa.types.is_decimal(column.type):
        to_number = int if kind == "int" else float
        return [None if value is None else to_number(value) for value in values]
    return values


def _cell(value: Any) -> Any:
    """A JSON value without loss of precision."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_SAFEST < value < _SAFEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = _text(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "\u2026"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def csv_pieces(run: Run, query: Query, stop: Stop | None = None) -> Iterator[bytes]:
    """The whole answer as CSV with a header, in pieces; raises UserError.

    Text that a spreadsheet would run as a formula gets a leading quote.
    """
    with _reading(run, query, CSV_LIMIT_S, stop) as reader:
        yield _csv_bytes([[harmless(name) for name in reader.schema.names]])
        for batch in reader:
            columns = [[_csv_cell(value) for value in _values(c)] for c in batch.columns]
            yield _csv_bytes(zip(*columns, strict=True))


def _csv_bytes(rows: Any) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows(rows)
    return file.getvalue().encode(errors="replace")


def _csv_cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return harmless(_text(value))

"""A read-only view of one published snapshot, from which no SQL gets out.

The snapshot is attached read-only to an in-memory database in which external access is switched
off and the configuration locked; only the run's own data folders stay readable. What is asked must
be one SELECT, so nothing can be written, attached, loaded or set.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ingest.database import Connection, Database
from ingest.errors import UserError
from ingest.manifest import Manifest, Narrowing
from ingest.time_limits import TimeLimits
from trace_hooks.schema import TABLES, publish_table

FREE_SQL_MEMORY = "10%"
"""What the SQL that people write on the query page may take together for one run: four of them at
once (app.routes.turns), over four runs, leave more than half of the machine to everything else."""

_DEEPEST = 1000
"""DuckDB's own limit for expressions; it finds out in quadratic time, which nothing interrupts."""


_BATCH_ROWS = 8192
CONTENT = ("frames",)
"""Tables that hold what went through the model: SQL sees them only where that was asked for."""
_MISSING = re.compile(r"Table with name (\w+) does not exist")


_MOST_ASKED, _MOST_ROWS = 64, 20_000
"""Answers about the index that are kept of one snapshot, and rows that one of them may have."""


_MOST_KNOWN, _LONGEST_KNOWN = 256, 20_000
_limits = TimeLimits()
_selects: set[str] = set()
"""Texts that were parsed and are one SELECT; parsing one takes most of a millisecond."""


# `sql` would spare this copy, but plans every query twice: small ones, which are most, take longer
# to plan than to compute
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")


class Interrupted(UserError):
    """A query was stopped, by its time limit or by whoever asked."""


_making_empty_files = threading.Lock()


def _empty_file(table: str, index_folder: Path) -> Path:
    """A file of the table without rows: what an empty list of files reads."""
    path = index_folder / "empty" / f"{table}.parquet"
    with _making_empty_files:  # temporary names differ by process only
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            publish_table(TABLES[table].schema.empty_table(), path)
    return path


class Snapshot:
    """One published state of a run's index, with its data files; safe to use from many threads."""

    def __init__(
        self, path: Path, run_folder: Path, memory_limit: str | None = None,
        before: Snapshot | None = None,
    ) -> None:  # fmt: skip
        """`memory_limit`: for SQL of strangers, who get no more and read no file of content.
        `before`: an older one of the run, whose database may show this one from now on.
        """
        self.path = path
        self.run_folder = run_folder.resolve()
        index_folder = path.resolve().parent
        self._empty = {table: str(_empty_file(table, index_folder)) for table in TABLES}
        self._views_lock = threading.Lock()
        self._shown: set[str] = set()
        self._rows: dict[tuple[str, tuple[tuple[str, Hashable], ...]], list[dict[str, Any]]] = {}
        if before is None or before._database.is_worn:
            self._database: Database = Database(memory_limit)
            self._number = self._database.show(path)
            self._close_off(index_folder, memory_limit)
        else:
            self._database = before._database
            self._number = self._database.show(path)

    def _close_off(self, index_folder: Path, memory_limit: str | None) -> None:
        if memory_limit:
            listed = [path for name in TABLES if name not in CONTENT for path in self.files(name)]
            self._database.close_off("allowed_paths", listed)
        else:
            folders = [self.run_folder / "segments", self.run_folder / "compacted", index_folder]
            self._database.close_off("allowed_directories", [f"{folder}/" for folder in folders])

    def files(self, table: str, narrowing: Narrowing | None = None) -> list[str]:
        """Absolute paths of the files a query over a raw table has to open; never none."""
        with self._database.cursor() as cursor:
            picked = Manifest(cursor).pick(table, narrowing)
        return [str(self.run_folder / path) for path in picked] or [self._empty[table]]

    def show_raw_tables(self, with_content: bool = False) -> None:
        """Make a view of every raw table, for SQL that names them; once."""
        with self._views_lock:
            wanted = set(TABLES) if with_content else set(TABLES).difference(CONTENT)
            files = {table: self.files(table) for table in wanted - self._shown}
            self._database.show_files(files, self._number)
            self._shown |= wanted

    def execute(
        self, text: str, values: Mapping[str, Any], limit_s: float | None, stop: Stop | None = None
    ) -> pa.Table:
        """Rows of one SELECT; raises UserError (what DuckDB says), Interrupted when stopped."""
        with self._query(text, limit_s, stop) as cursor:
            return cursor.execute(text, dict(values)).to_arrow_table()

    def index_rows(
        self, text: str, values: Mapping[str, Hashable], limit_s: float | None
    ) -> list[dict[str, Any]]:
        """Rows of a SELECT over the index alone, each read only; raises as execute does.

        What was asked lately is at hand: a snapshot never changes.
        """
        key = (text, tuple(sorted(values.items())))
        rows = self._rows.get(key)
        if rows is None:
            rows = self.execute(text, values, limit_s).to_pylist()
            if len(self._rows) < _MOST_ASKED and len(rows) <= _MOST_ROWS:
                self._rows[key] = rows
        return list(rows)

    @contextmanager
    def reading(
        self, text: str, values: Mapping[str, Any], limit_s: float | None, stop: Stop | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        """Rows of one SELECT in batches, computed while they are read; raises as execute does."""
        with self._query(text, limit_s, stop) as cursor:
            yield cursor.sql(text, params=dict(values)).to_arrow_reader(_BATCH_ROWS)

    @contextmanager
    def _query(self, text: str, limit_s: float | None, stop: Stop | None) -> Iterator[Connection]:
        try:
            with (
                self._database.cursor() as cursor,
                _limits.limit(limit_s, lambda: _interrupt(cursor)),
            ):
                _require_select(text, cursor)
                if stop is not None:
                    stop.attach(cursor)
                yield cursor
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if isinstance(error, duckdb.OutOfMemoryException):
                raise UserError(
                    "the query needs more memory than it may use; ask for fewer ranks or steps"
                ) from error
            if not isinstance(error, duckdb.InterruptException) and "INTERRUPT" not in str(error):
                raise UserError(f"SQL: {self._content_kept(error) or _sentence(error)}") from error
            why = "was interrupted" if stop and stop.called else f"took longer than {limit_s} s"
            raise Interrupted(f"the query {why}; ask for fewer ranks or steps") from error

    def _content_kept(self, error: Exception) -> str:
        """Why a table of content is not there, '' where that is not what went wrong."""
        found = _MISSING.search(str(error))
        if found is None or found[1].lower() not in CONTENT:
            return ""
        return (
            f"{found[1]} holds content of the model, which SQL does not see; the page Model shows "
            "it, and `rankscope query --content` reads it on this machine"
        )

    def close(self) -> None:
        """Close the database; cursors in use finish first."""
        self._database.close()


class Stop:
    """A handle with which another thread stops a query."""

    def __init__(self) -> None:
        self.called = False
        self._cursor: Connection | None = None

    def attach(self, cursor: Connection) -> None:
        """Called by the query when it starts."""
        self._cursor = cursor
        if self.called:
            cursor.interrupt()

    def __call__(self) -> None:
        """Stop the query, now or as soon as it starts."""
        self.called = True
        if self._cursor is not None:
            _interrupt(self._cursor)


def _interrupt(cursor: Connection) -> None:
    with suppress(duckdb.ConnectionException):  # the query has ended meanwhile
        cursor.interrupt()


def _require_select(text: str, cursor: Connection) -> None:
    """Raise UserError for anything but one SELECT; what was one before is one."""
    if text in _selects:
        return
    if _depth(text) > _DEEPEST:
        raise UserError(f"SQL: brackets are nested deeper than {_DEEPEST}; write it flatter")
    statements = cursor.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UserError("SQL: give exactly one SELECT; nothing else is possible here")
    if len(text) <= _LONGEST_KNOWN:
        if len(_selects) >= _MOST_KNOWN:
            _selects.clear()
        _selects.add(text)


def _depth(text: str) -> int:
    """How deep brackets are nested at most; those inside quotes count, too."""
    signs = np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)
    opened, closed = np.isin(signs, list(b"([{")), np.isin(signs, list(b")]}"))
    return int(np.cumsum(opened.astype(np.int64) - closed).max(initial=0))


_POSITION = re.compile(r"^LINE (\d+): (.*)\n( *)\^", re.M)


def _sentence(error: Exception) -> str:
    """What DuckDB says, with its hint, and where in the text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    hint = next((line for line in lines[1:] if line.startswith(("Did you mean", "Candidate"))), "")
    found = _POSITION.search(str(error))
    where = ""
    if found is not None:
        column = len(found[3]) - len(f"LINE {found[1]}: ") + 1
        where = f"(line {found[1]}, character {max(1, column)})"
    return " ".join(filter(None, (lines[0] if lines else "it failed", hint, where)))

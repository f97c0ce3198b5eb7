"""One published snapshot of a run's index, for the saved queries (sql/*.sql).

The snapshot is attached read-only to an in-memory database in which external access is switched
off and the configuration locked; only the run's own data folders stay readable. SQL that users
write never runs here: see ingest.free_sql.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.query.connection import Connection, Database, empty_file
from ingest.query.manifest import Manifest, Narrowing
from ingest.query.query_errors import interrupted, sentence
from ingest.query.query_timeouts import TimeLimits
from ingest.run_folder.run_paths import DATA, data_file, readable
from ingest.stopping import Stop, interrupt
from trace_hooks.schema import TABLES, publish_table

_BATCH_ROWS = 8192
_MOST_CACHED, _MOST_ROWS = 64, 20_000
"""Answers about the index that are cached for one snapshot, and rows that one of them may have."""


_limits = TimeLimits()


# `sql` would spare this copy, but plans every query twice: small ones, which are most, take longer
# to plan than to compute
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")


_making_empty_files = threading.Lock()


def _empty_file(table: str, index_folder: Path) -> Path:
    """A file of the table without rows: what an empty list of files reads."""
    path = index_folder / empty_file(table)
    with _making_empty_files:  # temporary names differ by process only
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            publish_table(TABLES[table].schema.empty_table(), path)
    return path


class Snapshot:
    """One published state of a run's index, with its data files; safe to use from many threads."""

    def __init__(self, path: Path, run_folder: Path, before: Snapshot | None = None) -> None:
        """`before`: an older one of the run, whose database may show this one from now on."""
        self.path = path
        self.run_folder = run_folder.resolve()
        index_folder = path.resolve().parent
        self._empty = {table: str(_empty_file(table, index_folder)) for table in TABLES}
        self._views_lock = threading.Lock()
        self._are_shown = False
        self._rows: dict[tuple[str, tuple[tuple[str, Hashable], ...]], list[dict[str, Any]]] = {}
        if before is None or before._database.is_worn:
            self._database: Database = Database()
            self._close_off(index_folder)
        else:
            self._database = before._database
        self._number = self._database.show(path)

    def _close_off(self, index_folder: Path) -> None:
        folders = [*(self.run_folder / name for name in DATA), index_folder]
        self._database.close_off([f"{folder}/" for folder in folders])

    def files(self, table: str, narrowing: Narrowing | None = None) -> list[str]:
        """Absolute paths of the files a query over a raw table has to open; never none.

        Raises UserError where a link or a pipe has taken the place of one.
        """
        with self._database.cursor() as cursor:
            picked = Manifest(cursor).pick(table, narrowing)
        index_folder = self.path.resolve().parent
        files = [data_file(self.run_folder, index_folder, path) for path in picked]
        paths = [readable(str(file)) for file in files]
        return self._database.with_all_columns(paths, self._empty[table])

    def show_raw_tables(self) -> None:
        """Make a view of every raw table, for SQL that names them; once."""
        with self._views_lock:
            if not self._are_shown:
                files = {table: self.files(table) for table in TABLES}
                self._database.show_files(files, self._number)
                self._are_shown = True

    def execute(
        self, text: str, values: Mapping[str, Any], limit_s: float | None, stop: Stop | None = None
    ) -> pa.Table:
        """Rows of one SELECT; raises UserError (DuckDB's message), Interrupted when stopped."""
        with self._query(text, limit_s, stop) as cursor:
            return cursor.execute(text, dict(values)).to_arrow_table()

    def index_rows(
        self, text: str, values: Mapping[str, Hashable], limit_s: float | None
    ) -> list[dict[str, Any]]:
        """Rows of a SELECT over the index alone, each read only; raises as execute does.

        Recent answers are cached: a snapshot never changes.
        """
        key = (text, tuple(sorted(values.items())))
        rows = self._rows.get(key)
        if rows is None:
            rows = self.execute(text, values, limit_s).to_pylist()
            if len(self._rows) < _MOST_CACHED and len(rows) <= _MOST_ROWS:
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
                _limits.limit(limit_s, lambda: interrupt(cursor)),
            ):
                if stop is not None:
                    stop.attach(cursor)
                yield cursor
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if not isinstance(error, duckdb.InterruptException) and "INTERRUPT" not in str(error):
                raise UserError(sentence(error)) from error
            raise interrupted(limit_s, stop) from error

    def close(self) -> None:
        """Close the database; cursors in use finish first."""
        self._database.close()

"""The in-memory database through which snapshots of one run's index are read.

Opening one takes longer than most questions (its macros, its threads), so several snapshots share
it: each new one is attached next to the one before, views show the newest, and one without
readers is detached. Before the first query external access is switched off and the configuration
locked; only the run's own folders stay readable.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ingest.cpu_count import num_cores
from ingest.query.index_catalog import ForeignIndex, require_own_tables
from ingest.query.index_sql import index_sql
from trace_hooks.schema import SCHEMA_VERSION

Connection = duckdb.DuckDBPyConnection

Config = dict[str, str | bool | int | float | list[str]]
_CONFIG: Config = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": "25%",  # of the machine's: one query must not take the training job's host down
    "threads": max(1, num_cores() // 2),  # nor keep its ranks from computing
}
INDEX_TABLES = (
    "files",
    "removed_steps",
    "arrivals",
    "ranks",
    "step_rows",
    "evaluations",
    "group_members",
    "clock_offsets",
    "step_rollup",
    "summed_steps",
    "kind_rollup",
    "collective_rollup",
    "problems",
)
"""Tables of the index that SQL may use, next to the raw ones of trace_hooks.schema.TABLES."""
_SQL_BEFORE = ("bus_bytes", "device_peaks", "corrected_kinds")
_SQL_OF_EACH = "newest_steps"
_SQL_AFTER = "views"
SHARED_SQL = (*_SQL_BEFORE, _SQL_OF_EACH, _SQL_AFTER)
"""Texts of sql/index that every database runs: those before and after once, the one between for
each snapshot it shows.
"""
INDEX_VIEWS = ("device_peaks", "corrected_kinds", "newest_steps", "crossing_groups")
"""What sql/index makes of them for every database, which SQL may use as well."""

_VIEWS = "".join(
    f"CREATE OR REPLACE VIEW {name} AS FROM {{snapshot}}.{name};\n" for name in INDEX_TABLES
)
_ROWS_OF = """
-- rows of a list of Parquet files
CREATE OR REPLACE MACRO rows_of(files) AS TABLE
    SELECT * FROM read_parquet(files, hive_partitioning = false, union_by_name = {is_partial});
-- rows of files of spans; communication has the kind that its group's axis has now
CREATE OR REPLACE MACRO spans_of(files) AS TABLE {spans};
"""
"""is_partial: some files lack nullable columns; it opens every footer, so not by default."""
_SPANS = "FROM rows_of(files)"
_CORRECTED_SPANS = """
    SELECT s.* REPLACE (
        if(ends_with(s.kind, '_comm'), coalesce(c.kind, s.kind), s.kind) AS kind)
    FROM rows_of(files) s LEFT JOIN corrected_kinds c USING (attempt, group_id)
"""
"""Where the layout was corrected by hand."""
_KINDS_OF_FILES = """
SELECT coalesce((SELECT bool_or(is_partial) FROM files), false), EXISTS (FROM corrected_kinds)
"""


MOST_SHOWN = 3
"""Snapshots that one database shows: it keeps some kB of every query until it is closed."""


def quoted(text: str | Path) -> str:
    """As a string in SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def empty_file(table: str) -> str:
    """Below the folder of an index: a file of the table with all its columns and no row."""
    return f"empty/{table}-{SCHEMA_VERSION}.parquet"


class Database:
    """A database that shows one snapshot at a time; safe to use from many threads."""

    def __init__(self, config: Config | None = None) -> None:
        """Without anything to show yet. `config`: of DuckDB's settings those that differ."""
        config = _CONFIG | (config or {})
        self._connection = duckdb.connect(":memory:", config=config)
        self._connection.execute("SET enable_progress_bar = false")  # drawn in notebooks and `-c`
        self._num_shown = 0
        self._lock = threading.Lock()
        self._shown = ""
        self._kinds_of_files: tuple[bool, bool] | None = None
        self._attached: list[str] = []
        self._read: Counter[str] = Counter()
        self._files_of = -1

    @property
    def is_worn(self) -> bool:
        """Whether the next snapshot had better have a database of its own."""
        return self._num_shown >= MOST_SHOWN

    def close_off(self, folders: Sequence[str]) -> None:
        """Let SQL reach what is in these folders and nothing else."""
        listed = ", ".join(map(quoted, folders))
        self._connection.execute(f"SET allowed_directories = [{listed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    @property
    def connection(self) -> Connection:
        """For what is set for all cursors."""
        return self._connection

    def show(self, snapshot: Path | str) -> int:
        """Show another snapshot, from now on; queries under way keep theirs. Returns its
        number; raises duckdb.Error, ForeignIndex for one that this program did not make.
        """
        with self._lock:
            number = self._num_shown
            self._num_shown += 1
            name = f"snapshot_{number}"
            self._connection.execute(f"ATTACH {quoted(snapshot)} AS {name} (READ_ONLY)")
            try:
                require_own_tables(self._connection, name)
            except ForeignIndex:
                self._connection.execute(f"DETACH {name}")
                raise
            self._attached.append(name)
            with self._connection.cursor() as cursor:
                cursor.begin()
                self._make_views(cursor, name)
                cursor.commit()
            self._shown = name
            self._detach_unread()
        return number

    def with_all_columns(self, paths: Sequence[str], empty: str) -> list[str]:
        """The paths, with that of the table's empty file where there are none, or where files of
        an older schema lack columns: of a list the columns of all files are read.
        """
        is_partial = self._kinds_of_files is not None and self._kinds_of_files[0]
        return [*paths, empty] if is_partial or not paths else list(paths)

    def show_files(self, files: Mapping[str, Sequence[str]], number: int) -> None:
        """Make views of raw tables of these files, as the snapshot of that number lists them; not
        where those of a newer one are there.
        """
        with self._lock:
            if number < self._files_of:
                return
            self._files_of = number
            for table, paths in files.items():
                macro = "spans_of" if table == "spans" else "rows_of"
                listed = ", ".join(map(quoted, paths))
                self._connection.execute(
                    f"CREATE OR REPLACE VIEW {table} AS FROM {macro}([{listed}])"
                )

    def _make_views(self, cursor: Connection, name: str) -> None:
        cursor.execute(_VIEWS.format(snapshot=name))
        if not self._shown:
            cursor.execute("\n".join(map(index_sql, _SQL_BEFORE)))
        kinds = is_partial, is_corrected = cursor.execute(_KINDS_OF_FILES).fetchall()[0]
        if kinds != self._kinds_of_files:
            spans = _CORRECTED_SPANS if is_corrected else _SPANS
            cursor.execute(_ROWS_OF.format(is_partial=is_partial, spans=spans))
        cursor.execute(index_sql(_SQL_OF_EACH))
        if not self._shown:
            cursor.execute(index_sql(_SQL_AFTER))
        self._kinds_of_files = kinds

    def _detach_unread(self) -> None:
        """Detach snapshots without readers."""
        for name in [n for n in self._attached if n != self._shown and not self._read[n]]:
            self._connection.execute(f"DETACH {name}")
            self._attached.remove(name)
            del self._read[name]

    @contextmanager
    def cursor(self) -> Iterator[Connection]:
        """A cursor that reads what is shown now; it keeps that attached."""
        with self._lock:
            name = self._shown
            self._read[name] += 1
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()
            with self._lock:
                self._read[name] -= 1

    def close(self) -> None:
        """Close it; cursors in use finish first."""
        self._connection.close()

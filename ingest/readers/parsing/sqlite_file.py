"""SQLite databases of strangers: read-only, one plain table at a time, nothing else allowed.

Views, triggers, virtual tables and generated columns are never touched: what looks like a table of
the format is checked to be one, and an authorizer denies everything but reading those tables. A
database is opened as immutable, so that nothing is written next to it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.limits import MIB, limits, variable

MAGIC = b"SQLite format 3\x00"
_ROWS_AT_ONCE = 10_000
_STEPS_BETWEEN_LOOKS = 100_000
_MOST_TABLES = 10_000
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MIB,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 2,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_DAMAGED = (sqlite3.Error, OverflowError, MemoryError, UnicodeError)
"""What sqlite3 raises on damage; names of columns are decoded whatever text_factory is."""
_GENERATED = (2, 3)
"""PRAGMA table_xinfo's mark of columns that are computed, which could call functions."""


class Unreadable(ValueError):
    """The database, or a table of it, is damaged or none; one sentence without the file's name."""


class Database:
    """A database to read from; a context manager. Raises Unreadable."""

    def __init__(self, path: Path) -> None:
        self.damage = ""
        """what is wrong with the database as a whole; empty for nothing"""
        self._tables: set[str] = set()
        self._until_s = time.monotonic() + limits().max_seconds
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise Unreadable(f"cannot be opened: {error}") from None
        try:
            self._restrict()
        except _DAMAGED as error:
            self._connection.close()
            raise Unreadable(f"is a damaged SQLite database: {error}") from None

    def _restrict(self) -> None:
        connection = self._connection
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        for category, most in _LIMITS.items():
            connection.setlimit(category, most)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits().max_value_mib * MIB)
        connection.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)
        for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}").close()
        try:
            self._list_tables()
        except sqlite3.DatabaseError as error:
            # SQLite refuses a file that was cut off; in this mode it reads the pages there are
            # (nothing can be written all the same)
            connection.execute("PRAGMA writable_schema = ON").close()
            self._list_tables()
            self.damage = f"is a damaged SQLite database, read as far as it goes: {error}"

    def _list_tables(self) -> None:
        text = "SELECT name, type, sql, rootpage FROM sqlite_master"
        with closing(self._connection.execute(text)) as cursor:
            for name, kind, sql, page in cursor.fetchmany(_MOST_TABLES):
                is_plain = kind == "table" and isinstance(page, int) and page > 0
                if is_plain and str(sql).lstrip().upper().startswith("CREATE TABLE"):
                    self._tables.add(str(name))

    def _is_late(self) -> int:
        return int(time.monotonic() > self._until_s)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def has(self, *tables: str) -> bool:
        """Whether all of these are plain tables."""
        return self._tables.issuperset(tables)

    def columns(self, table: str) -> set[str]:
        """Stored columns of a table; empty for anything else."""
        if table not in self._tables:
            return set()
        try:
            with closing(self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})")) as rows:
                return {row[1] for row in rows if row[6] not in _GENERATED}
        except _DAMAGED as error:
            raise Unreadable(f"table {table} is damaged: {error}") from None

    def lacks(self, table: str, columns: Sequence[str]) -> str:
        """Which columns another version of the format does not have; empty for none.

        Raises Unreadable for a table that is not there or damaged.
        """
        there = self.columns(table)
        if not there:
            raise Unreadable(f"has no table {table}")
        missing = [name for name in columns if name not in there]
        return f"table {table} has no {', '.join(missing)}" if missing else ""

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Some columns of every row; a column that is not there is None.

        Raises Unreadable for a table that is not there, and, after the rows before, where it is
        damaged or takes longer than RANKSCOPE_MAX_SECONDS.
        """
        there = self.columns(table)
        if not there:
            raise Unreadable(f"has no table {table}")
        chosen = [_quoted(name) if name in there else "NULL" for name in columns]
        self._connection.set_authorizer(_only_reading({table}))
        try:
            text = f"SELECT {', '.join(chosen)} FROM {_quoted(table)}"  # noqa: S608  # quoted
            with closing(self._connection.execute(text)) as cursor:
                while batch := cursor.fetchmany(_ROWS_AT_ONCE):
                    yield from batch
        except _DAMAGED as error:
            why = str(error)
            if self._is_late():
                why = f"reading takes longer than {variable('max_seconds')}={limits().max_seconds}"
            raise Unreadable(f"table {table} was read only in part: {why}") from None
        finally:
            self._connection.set_authorizer(None)


def _only_reading(tables: set[str]) -> Any:
    def decide(action: int, first: str | None, _: Any, __: Any, inner: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT and inner is None:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first in tables and inner is None:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return decide


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

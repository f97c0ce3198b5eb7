"""Whether an index has the tables that this version makes and nothing else.

A run folder may come from a stranger, with an index in it. A view, a default or a trigger in the
place of a table would be run by the indexer and by the server, which may read files.
"""

from __future__ import annotations

from functools import cache

import duckdb

from ingest.query.index_sql import index_sql

SETUP = "".join(index_sql(name) for name in ("tables", "bus_bytes", "corrected_kinds"))
"""What makes an index in an empty database."""
_FOREIGN = "the index has tables or views that are not its own"
_TABLES = "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = $database"
_CATALOG = """
SELECT 'table' AS kind, table_name AS name, sql FROM duckdb_tables()
WHERE NOT internal AND database_name = $database
UNION ALL SELECT 'view', view_name, sql FROM duckdb_views()
WHERE NOT internal AND database_name = $database
UNION ALL SELECT 'macro', function_name, macro_definition FROM duckdb_functions()
WHERE NOT internal AND database_name = $database
UNION ALL SELECT 'index', index_name, sql FROM duckdb_indexes()
WHERE database_name = $database
UNION ALL SELECT 'trigger', trigger_name, sql FROM duckdb_triggers()
WHERE database_name = $database
UNION ALL SELECT 'sequence', sequence_name, sql FROM duckdb_sequences()
WHERE database_name = $database
UNION ALL SELECT 'schema', schema_name, NULL FROM duckdb_schemas()
WHERE NOT internal AND database_name = $database
"""


class ForeignIndex(duckdb.Error):
    """An index that this program did not make."""


def require_own(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Raise ForeignIndex unless a database is empty or has exactly what SETUP creates in one.

    Looks at the catalog only: nothing that a stranger wrote is run.
    """
    if _catalog(connection, database) not in (frozenset(), own_catalog()):
        raise ForeignIndex(_FOREIGN)


def require_own_tables(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Raise ForeignIndex unless a database that is only read has all tables that SETUP creates.

    What else may be in it is never named, so a tenth of the time will do.
    """
    tables = connection.execute(_TABLES, {"database": database}).fetchall()
    if not set(tables) >= _own_tables():
        raise ForeignIndex(_FOREIGN)


def _catalog(
    connection: duckdb.DuckDBPyConnection, database: str
) -> frozenset[tuple[str, str, str | None]]:
    """Kind, name and SQL of all that was created in a database."""
    return frozenset(connection.execute(_CATALOG, {"database": database}).fetchall())


@cache
def own_catalog() -> frozenset[tuple[str, str, str | None]]:
    """Kind, name and SQL of all that SETUP creates; without threads, for processes that fork."""
    with duckdb.connect(":memory:", config={"threads": 1, "async_threads": 0}) as connection:
        connection.execute(SETUP)
        return _catalog(connection, "memory")


@cache
def _own_tables() -> frozenset[tuple[str, str | None]]:
    return frozenset((name, sql) for kind, name, sql in own_catalog() if kind == "table")

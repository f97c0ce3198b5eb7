"""Whether an index has the tables that this version makes and nothing else.

A run folder may come from a stranger, with an index in it. A view, a default or a trigger in the
place of a table would be run by the indexer, which may read files.
"""

from __future__ import annotations

from functools import cache

import duckdb

_CATALOG = """
SELECT 'table' AS kind, table_name AS name, sql FROM duckdb_tables()
WHERE NOT internal AND database_name = current_database()
UNION ALL SELECT 'view', view_name, sql FROM duckdb_views()
WHERE NOT internal AND database_name = current_database()
UNION ALL SELECT 'macro', function_name, macro_definition FROM duckdb_functions()
WHERE NOT internal AND database_name = current_database()
UNION ALL SELECT 'index', index_name, sql FROM duckdb_indexes()
WHERE database_name = current_database()
UNION ALL SELECT 'trigger', trigger_name, sql FROM duckdb_triggers()
WHERE database_name = current_database()
UNION ALL SELECT 'sequence', sequence_name, sql FROM duckdb_sequences()
WHERE database_name = current_database()
UNION ALL SELECT 'schema', schema_name, NULL FROM duckdb_schemas()
WHERE NOT internal AND database_name = current_database()
"""


class ForeignIndex(duckdb.Error):
    """An index that this program did not make."""


def require_own(connection: duckdb.DuckDBPyConnection, setup: str) -> None:
    """Raise ForeignIndex unless the database has exactly what `setup` creates in an empty one."""
    if set(connection.execute(_CATALOG).fetchall()) != _made_by(setup):
        raise ForeignIndex("the index has tables or views that are not its own")


@cache
def _made_by(setup: str) -> frozenset[tuple[str, str, str | None]]:
    with duckdb.connect(":memory:") as connection:
        connection.execute(setup)
        return frozenset(connection.execute(_CATALOG).fetchall())

"""Keeps the clock offsets of an index up to date; only ranks with new estimates take time."""

from __future__ import annotations

from ingest.query.index_sql import index_sql
from ingest.query.manifest import Connection

_KNOWN = "SELECT DISTINCT attempt, rank FROM clock_offsets"
_FORGET_ASSUMED = "DELETE FROM clock_offsets WHERE is_assumed"
_FORGET_FRESH = """
DELETE FROM clock_offsets WHERE (attempt, rank) IN (SELECT (attempt, rank) FROM fresh_clocks)
"""


def store_clocks(connection: Connection, files: list[str]) -> set[int]:
    """Take in new `clocks` files, and renew the assumed offsets of ranks without an estimate.

    Runs in the caller's transaction. Returns the attempts in which a rank's clock has become known,
    or unknown. Raises duckdb.Error where a file cannot be read.
    """
    before = set(connection.execute(_KNOWN).fetchall())
    connection.execute(_FORGET_ASSUMED)
    if files:
        connection.execute(index_sql("unknown_clocks"), {"clocks": files})
        connection.execute(index_sql("fresh_clocks"), {"clocks": files})
        connection.execute(_FORGET_FRESH)
        connection.execute(index_sql("clock_offsets"))
    connection.execute(index_sql("assumed_clocks"))
    after = set(connection.execute(_KNOWN).fetchall())
    return {attempt for attempt, _ in before ^ after}

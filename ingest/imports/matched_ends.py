"""Ends of matched collectives of a run in the making, which has no index yet."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.query.index_sql import index_sql
from ingest.query.saved_queries import saved_query

_MACRO = "CREATE MACRO rows_of(files) AS TABLE SELECT * FROM read_parquet(files)"
_QUESTION = "matched_ends"
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "memory_limit": "25%",
}
_ahead: list[duckdb.DuckDBPyConnection] = []


def get_ready() -> None:
    """Make what the next matched_ends works with; as long as reading some 10,000 collectives."""
    if not _ahead:
        _ahead.append(_made())


def _made() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(":memory:", config=_CONFIG)
    made.execute(_MACRO)
    made.execute(index_sql("tables"))
    return made


def _taken() -> duckdb.DuckDBPyConnection:
    try:
        return _ahead.pop()
    except IndexError:
        return _made()


def matched_ends(segments: Path) -> pa.Table:
    """The question matched_ends of what an import (attempt 0) has written so far.

    Columns as in sql/matched_ends.sql. Raises UserError where times or memory go beyond all bounds.
    """
    collectives, groups = (
        [str(p) for p in sorted(segments.glob(f"{table}-*.parquet"))]
        for table in ("collectives", "groups")
    )
    query = saved_query(_QUESTION)
    if not collectives or not groups:
        return pa.table({name: pa.array([], pa.int64()) for name, _ in query.columns})
    values = query.values({"attempt": 0}) | {"collectives": collectives}
    try:
        with _taken() as made:
            made.execute(index_sql("group_members"), {"groups": groups})
            return made.sql(query.sql, params=values).to_arrow_table()
    except duckdb.Error as error:
        raise UserError(f"collectives cannot be matched: {str(error).splitlines()[0]}") from error

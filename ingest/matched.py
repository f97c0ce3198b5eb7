"""Ends of matched collectives of a run in the making, which has no index yet."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.index_sql import index_sql
from ingest.questions import question

_MACRO = "CREATE MACRO rows_of(files) AS TABLE SELECT * FROM read_parquet(files)"
_QUESTION = "matched_ends"
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "memory_limit": "25%",
}


def matched_ends(segments: Path) -> pa.Table:
    """The question matched_ends of what an import (attempt 0) has written so far.

    Columns as in sql/matched_ends.sql. Raises UserError where times or memory go beyond all bounds.
    """
    collectives, groups = (
        [str(p) for p in sorted(segments.glob(f"{table}-*.parquet"))]
        for table in ("collectives", "groups")
    )
    asked = question(_QUESTION)
    if not collectives or not groups:
        return pa.table({name: pa.array([], pa.int64()) for name, _ in asked.columns})
    values = asked.values({"attempt": 0}) | {"collectives": collectives}
    try:
        with duckdb.connect(":memory:", config=_CONFIG) as made:
            made.execute(_MACRO)
            made.execute(index_sql("tables"))
            made.execute(index_sql("group_members"), {"groups": groups})
            return made.sql(asked.sql, params=values).to_arrow_table()
    except duckdb.Error as error:
        raise UserError(f"collectives cannot be matched: {str(error).splitlines()[0]}") from error

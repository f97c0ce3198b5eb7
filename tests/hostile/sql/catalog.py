"""What the running DuckDB has: functions, settings, system views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import duckdb


@dataclass(frozen=True)
class Function:
    """One signature of a function."""

    name: str
    kind: str
    """scalar | aggregate | window | macro | table | table_macro | pragma"""
    names: tuple[str, ...]
    types: tuple[str, ...]
    varargs: str | None


@dataclass(frozen=True)
class Catalog:
    """What a fresh connection reports of itself."""

    functions: tuple[Function, ...]
    settings: tuple[str, ...]
    views: tuple[str, ...]
    keywords: tuple[str, ...]

    def names(self, *kinds: str) -> list[str]:
        """Functions of these kinds, each name once."""
        return sorted({f.name for f in self.functions if f.kind in kinds})


_FUNCTIONS = """
SELECT DISTINCT function_name, function_type, parameters, parameter_types, varargs
FROM duckdb_functions() ORDER BY ALL
"""


@cache
def catalog() -> Catalog:
    """Of the DuckDB of this process."""
    with duckdb.connect() as connection:
        functions = tuple(
            Function(name, kind, tuple(map(str, names)), tuple(t or "ANY" for t in types), varargs)
            for name, kind, names, types, varargs in connection.execute(_FUNCTIONS).fetchall()
        )
        settings, views, keywords = (
            tuple(str(row[0]) for row in connection.execute(text).fetchall())
            for text in (
                "SELECT name FROM duckdb_settings() ORDER BY 1",
                "SELECT DISTINCT concat_ws('.', database_name, schema_name, view_name)"
                " FROM duckdb_views() ORDER BY 1",
                "SELECT DISTINCT keyword_name FROM duckdb_keywords() ORDER BY 1",
            )
        )
    return Catalog(functions, settings, views, keywords)

"""What Spark SQL says differently from DuckDB. Both engines run the same texts of sql/.

The texts named here keep to what both understand, once `to_spark` has translated a few things:
parameters, lists of files, elements of lists, and functions of another name. Macros and views of
sql/index become temporary functions and views of Spark; sql/spark/functions.sql has the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from ingest.query.index_sql import index_sql

SHARED_QUESTIONS = (
    "bubble",
    "collectives_by_group",
    "comm_by_axis",
    "coverage",
    "data_gaps",
    "grid",
    "heat_map",
    "job_shares",
    "late_ranks",
    "pair_bandwidth",
    "rank_cells",
    "rank_phases",
    "rank_waits",
    "rank_work",
    "slowest_ranks",
    "step_times",
    "time_lost",
    "transfers",
    "waits_by_group",
    "where_time_goes",
)
"""Saved queries that Spark answers as well."""

SHARED_OF_INDEX = (
    "collective_members",
    "collective_sums",
    "load_spans",
    "load_transfers",
    "load_windows",
)
"""Texts of sql/index that a pass runs on either engine."""

SHARED_MACROS = (
    "bus_bytes",
    "chosen_collectives",
    "chosen_kinds",
    "chosen_steps",
    "collectives_of",
    "median_of",
    "median_of_others",
    "slowdowns",
)
"""Macros of sql/index that these use."""

SHARED_VIEWS = ("corrected_kinds", "crossing_groups")
"""Views of sql/index that these use."""

AGGREGATES = {"arg_max": "max_by", "list": "collect_list"}
LIST_FUNCTIONS = {"len": "array_size", "list_sort": "sort_array", "unnest": "explode"}
"""DuckDB's names -> Spark's."""

_MIDDLE = "STRUCT<n: INT, a: DOUBLE, b: DOUBLE, c: DOUBLE>"
_ARGUMENT_TYPES = {
    "high": "BIGINT",
    "low": "BIGINT",
    "m": _MIDDLE,
    "members": "BIGINT",
    "num_bytes": "BIGINT",
    "of_axis": "STRING",
    "op": "STRING",
    "own": "DOUBLE",
    "wanted": "INT",
}
"""Spark's functions have types, DuckDB's macros have none."""

_RULES = (
    (r"\bAS MATERIALIZED \(", "AS ("),  # a hint, without influence on the rows
    # a list of files: the view of those that the manifest chose
    (r"\bread_parquet\(\$(\w+)[^)]*\)", r"\1"),
    (r"\$(\w+)", r":\1"),
    # a list of the two greatest values; get() counts from 0
    (r"\bmax\((\w+), 2\)", r"slice(sort_array(collect_list(\1), false), 1, 2)"),
    (r"\b(\w+)\[(\d)\]", r"get(\1, \2 - 1)"),
    # DuckDB leaves out rows in which what it returns is NULL
    (
        r"\barg_max\(([\w.]+), ([\w.]+)\)(?! FILTER)",
        r"max_by(\1, \2) FILTER (WHERE \1 IS NOT NULL)",
    ),
)
_COMMENTS = re.compile(r"--.*")
_MACRO = re.compile(r"CREATE MACRO (?:IF NOT EXISTS )?(\w+)\(([^)]*)\) AS(?: (TABLE))?\s(.*)", re.S)
_VIEW = re.compile(r"CREATE VIEW (?:IF NOT EXISTS )?(\w+) AS\s(.*)", re.S)


def to_spark(text: str) -> str:
    """A shared text as Spark reads it."""
    text = _COMMENTS.sub("", text)
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    for name, of_spark in (AGGREGATES | LIST_FUNCTIONS).items():
        text = re.sub(rf"\b{name}\(", f"{of_spark}(", text)
    return text.strip()


def functions_and_views(of_questions: bool) -> list[str]:
    """Statements that make what the texts of a pass use, or of questions as well; each after those
    that it needs.

    The tables of the index must be there as views.
    """
    own = resources.files("ingest").joinpath("sql", "spark", "functions.sql").read_text("utf-8")
    names = ("bus_bytes", "corrected_kinds", *(("views",) if of_questions else ()))
    return [*_statements(own), *_translated(names)]


def _translated(names: tuple[str, ...]) -> Iterator[str]:
    for text in map(index_sql, names):
        for statement in _statements(text):
            view, macro = _VIEW.fullmatch(statement), _MACRO.fullmatch(statement)
            if view and view[1] in SHARED_VIEWS:
                yield f"CREATE OR REPLACE TEMPORARY VIEW {view[1]} AS {to_spark(view[2])}"
            elif macro and macro[1] in SHARED_MACROS:
                yield _function(*macro.groups())


def _function(name: str, arguments: str, table: str | None, body: str) -> str:
    typed = ", ".join(
        f"{argument} {_ARGUMENT_TYPES[argument]}" for argument in arguments.split(", ")
    )
    returns = " RETURNS TABLE" if table else ""
    start = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({typed}){returns}"
    return f"{start} RETURN {to_spark(body)}"


def _statements(text: str) -> list[str]:
    """Statements of a file in which none has a semicolon inside."""
    return [part.strip() for part in _COMMENTS.sub("", text).split(";") if part.strip()]

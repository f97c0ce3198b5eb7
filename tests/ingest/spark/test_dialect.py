"""The texts that both engines run keep to what Spark understands: checked without Spark."""

from __future__ import annotations

import re

import pytest

from ingest.query.index_sql import index_sql
from ingest.query.saved_queries import saved_queries, saved_query
from ingest.spark.dialect import (
    SHARED_MACROS,
    SHARED_OF_INDEX,
    SHARED_QUESTIONS,
    SHARED_VIEWS,
    functions_and_views,
    to_spark,
)
from tests.folders import REPO

OF_SPARK = """
    abs array_size avg bool_and bool_or cast coalesce collect_list count explode get
    greatest if lag lead least max max_by median min min_by nullif replace row_number slice
    sort_array sum
"""
"""Functions that mean the same in both, once to_spark has given them Spark's names."""
OF_FUNCTIONS_SQL = "ends_with list_position middle round_even starts_with"
KEYWORDS = """
    all and as between by case else exists filter from in join not on or over then using when where
    with
"""
ROLLUPS = r"\b(step_rollup|kind_rollup|collective_rollup|chosen_\w+|collectives_of|time_parts)\b"
KNOWN = {*OF_SPARK.split(), *OF_FUNCTIONS_SQL.split(), *SHARED_MACROS}

FOREIGN = {
    "FROM without SELECT": r"(\A|\()\s*FROM\b|\bUNION ALL FROM\b",
    "a condition without WHERE": r"\bFILTER \((?!WHERE\b)",
    "a cast by ::": r"::",
    "an ASOF join": r"\bASOF\b",
    "an element of a list": r"\w\[",
    "a list or a struct": r"[{]|(?<!\w)\[",
    "// for div": r"//",
    "columns but for some": r"\* (EXCLUDE|REPLACE)\b",
    "a parameter": r"\$\w",
    "a hint": r"\bMATERIALIZED\b",
    "a file": r"\bread_parquet\b|\brows_of\b|\bspans_of\b",
}


def complaints(text: str) -> list[str]:
    """What Spark would not understand in a translated text."""
    text = re.sub(r"'[^']*'", "''", text)
    called = set(re.findall(r"\b([a-z_]\w*)\(", text)) - set(KEYWORDS.split())
    foreign = [name for name, pattern in FOREIGN.items() if re.search(pattern, text)]
    return foreign + sorted(f"{name}()" for name in called - KNOWN)


@pytest.mark.parametrize("name", SHARED_QUESTIONS)
def test_a_shared_question_is_portable(name: str) -> None:
    assert complaints(to_spark(saved_query(name).sql)) == []


def test_questions_of_rollups_are_shared_or_the_documentation_says_why_not() -> None:
    of_rollups = {
        query.name
        for query in saved_queries().values()
        if not query.reads and re.search(ROLLUPS, query.sql)
    }
    page = (REPO / "docs" / "scale.md").read_text(encoding="utf-8")
    table = page.partition("| saved query | why |")[2].partition("\n\n")[0]
    explained = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row)}
    assert explained == of_rollups - set(SHARED_QUESTIONS)


@pytest.mark.parametrize("name", SHARED_OF_INDEX)
def test_a_text_of_the_pass_is_portable(name: str) -> None:
    assert complaints(to_spark(index_sql(name))) == []


def test_macros_and_views_become_functions_and_views_of_spark() -> None:
    made = functions_and_views(of_questions=True)
    translated = {
        match[1]: statement
        for statement in made
        if (match := re.match(r"CREATE OR REPLACE TEMPORARY (?:FUNCTION|VIEW) (\w+)", statement))
    }
    assert set(translated) == {*SHARED_MACROS, *SHARED_VIEWS, *OF_FUNCTIONS_SQL.split()}
    for name in (*SHARED_MACROS, *SHARED_VIEWS):
        body = re.split(r" RETURN | AS ", translated[name], maxsplit=1)[1]
        assert complaints(body) == [], name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("WITH a AS (FROM t) SELECT * FROM a", "FROM without SELECT"),
        ("SELECT sum(x) FILTER (is_open) FROM t", "a condition without WHERE"),
        ("SELECT mad(x) FROM t", "mad()"),
        ("SELECT x::DOUBLE FROM t", "a cast by ::"),
        ("SELECT * FROM rows_of($spans)", "a file"),
        ("WITH a AS NOT MATERIALIZED (SELECT 1) SELECT * FROM a", "a hint"),
    ],
)
def test_what_only_duckdb_understands_is_found(text: str, complaint: str) -> None:
    assert complaint in complaints(to_spark(text))


def test_parameters_files_and_lists_are_translated() -> None:
    text = "SELECT latest[2], $rank FROM read_parquet($spans, x = false) s -- files"
    assert to_spark(text) == "SELECT get(latest, 2 - 1), :rank FROM spans s"
    assert to_spark("WITH a AS MATERIALIZED (SELECT 1)") == "WITH a AS (SELECT 1)"


def test_the_row_of_the_greatest_value_is_one_in_which_there_is_something_to_return() -> None:
    assert to_spark("SELECT arg_max(r.pp, attempt) FROM t") == (
        "SELECT max_by(r.pp, attempt) FILTER (WHERE r.pp IS NOT NULL) FROM t"
    )
    filtered = "arg_max(rank, caused_ns) FILTER (WHERE caused_ns > 0)"
    assert to_spark(filtered) == "max_by(rank, caused_ns) FILTER (WHERE caused_ns > 0)"

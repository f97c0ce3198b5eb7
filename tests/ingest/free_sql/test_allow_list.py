"""The walk over the tree of a statement: what is listed passes, everything else is refused."""

from __future__ import annotations

import json

import duckdb
import pytest

from ingest.errors import UserError
from ingest.free_sql.allow_list import check_text, check_tree, functions

TABLES = ("spans", "steps", "ranks")


def check(text: str) -> None:
    """Check a text as a statement's process does."""
    check_text(text)
    with duckdb.connect() as connection:
        serialized = "SELECT json_serialize_sql($text::VARCHAR)"
        [[tree]] = connection.execute(serialized, {"text": text}).fetchall()
    check_tree(tree, TABLES)


@pytest.mark.parametrize(
    "text",
    [
        "FROM spans",
        "TABLE steps",
        "VALUES (1), (2)",
        "SELECT * FROM main.spans",
        "SELECT S.rank FROM SPANS AS S",
        "WITH x AS (FROM spans) FROM x, steps",
        "WITH x AS (FROM spans), y AS (FROM x) FROM y",
        "WITH spans AS (FROM spans) FROM spans",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 9) FROM x",
        "SELECT (SELECT max(step) FROM steps), EXISTS (FROM ranks)",
        "FROM spans SEMI JOIN ranks USING (rank)",
        "FROM spans ASOF JOIN steps USING (rank, step)",
        "SELECT median(dur_ns) FILTER (rank > 0) OVER (PARTITION BY rank) FROM spans QUALIFY true",
        "SELECT list_transform([1, 2], lambda x: x + 1), [x * 2 FOR x IN [1, 2]]",
        "SELECT COLUMNS(c -> c LIKE 'd%') FROM spans",
        "SELECT * EXCLUDE (rank) FROM spans",
        "SELECT kind::VARCHAR, try_cast(rank AS DECIMAL(9, 2)) FROM spans",
        "PIVOT spans ON kind IN ('forward', 'backward') USING sum(dur_ns) GROUP BY rank",
        "UNPIVOT steps ON dur_ns, start_ns",
        "DESCRIBE spans",
        "SUMMARIZE spans",
        "SHOW TABLES",
        "FROM (DESCRIBE)",
        "FROM range(3) r(i), LATERAL (SELECT i + 1)",
        "FROM slowdowns(NULL, 0, 9)",
        "FROM spans USING SAMPLE 10%",
        "SELECT count(*) FROM spans TABLESAMPLE 5 ROWS",
        "SELECT rank, kind FROM spans GROUP BY ROLLUP (rank, kind) ORDER BY ALL LIMIT 10%",
        "SELECT kind.upper(), s.kind.length() FROM spans s",
        "SELECT alias(rank) FROM spans",
        "SELECT 'copy', 'read_text(1)' AS \"delete\" -- COPY spans TO 'x'",
    ],
)
def test_a_select_passes(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("WITH x AS (COPY (SELECT 1) TO 'x') SELECT 1", "COPY is not possible"),
        ("WITH x AS (DELETE FROM spans RETURNING *) FROM x", "DELETE is not possible"),
        ("WITH x AS (INSERT INTO spans SELECT 1 RETURNING *) FROM x", "INSERT is not possible"),
        ("WITH x AS (UPDATE spans SET rank = 1 RETURNING *) FROM x", "UPDATE is not possible"),
        ("SELECT (WITH x AS (DELETE FROM spans RETURNING *) SELECT 1)", "DELETE is not possible"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("COPY spans TO 'x'", "exactly one SELECT"),
        ("SET threads = 1", "exactly one SELECT"),
        ("FROM 'x.csv'", "there is no table “x.csv”"),
        ("FROM duckdb_views", "there is no table “duckdb_views”"),
        ("FROM information_schema.tables", "without a schema"),
        ("FROM memory.main.spans", "without a schema"),
        ('WITH "x.csv" AS (FROM "x.csv") FROM "x.csv"', "there is no table “x.csv”"),
        ('WITH "x.csv" AS (SELECT 1) FROM main."x.csv"', "there is no table “x.csv”"),
        ('FROM (WITH "x.csv" AS (SELECT 1) FROM "x.csv"), "x.csv"', "there is no table “x.csv”"),
        ('FROM "x.csv", (WITH "x.csv" AS (SELECT 1) FROM "x.csv")', "there is no table “x.csv”"),
        ('WITH a AS (FROM "x.csv"), "x.csv" AS (SELECT 1) FROM a', "there is no table “x.csv”"),
        ('WITH RECURSIVE "x.csv" AS (FROM "x.csv" UNION ALL SELECT 1) FROM "x.csv"', "x.csv"),
        ("PIVOT 'x.csv' ON a IN (1) USING sum(b)", "there is no table “x.csv”"),
        ("DESCRIBE 'x.csv'", "there is no table “x.csv”"),
        ("SHOW DATABASES", "SHOW TABLES, DESCRIBE"),
        ("SELECT read_text('x')", "function read_text"),
        ("SELECT 'x'.read_text()", "read_text"),
        ("FROM read_parquet('x')", "function read_parquet"),
        ("FROM glob('*')", "function glob"),
        ("FROM query('SELECT 1')", "function query"),
        ("FROM rows_of(['x'])", "function rows_of"),
        ("SELECT current_setting('threads')", "function current_setting"),
        ("SELECT main.read_text('x')", "function main.read_text"),
        ("SELECT sum(1) OVER (ORDER BY getvariable('x'))", "function getvariable"),
        ("SELECT list_transform([1], lambda x: write_log('x'))", "function write_log"),
        ("SELECT $1", "no values for parameters"),
        ("FROM spans AT (VERSION => 1)", "AT is not"),
        ("", "there is no SQL"),
        ("SELECT " + "(" * 2000, "nested deeper"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_everything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")) as caught:
        check(text)
    assert "\n" not in str(caught.value)


def test_a_node_that_is_not_known_is_refused() -> None:
    node = {"type": "SELECT_NODE", "select_list": [], "from_table": {"type": "NEW_REF"}}
    tree = {"error": False, "statements": [{"node": node}]}
    with pytest.raises(UserError, match="NEW REF is not possible"):
        check_tree(json.dumps(tree), TABLES)
    node["from_table"] = {"class": "NEW_EXPRESSION"}  # type: ignore[assignment]
    with pytest.raises(UserError, match="NEW EXPRESSION is not possible"):
        check_tree(json.dumps(tree), TABLES)


NEVER = (
    "read_text",
    "read_blob",
    "read_csv",
    "read_parquet",
    "glob",
    "query",
    "query_table",
    "getenv",
    "current_setting",
    "getvariable",
    "nextval",
    "setval",
    "setseed",
    "write_log",
    "sleep_ms",
    "pg_sleep",
    "json_execute_serialized_sql",
    "json_serialize_sql",
    "pg_get_viewdef",
    "finalize",
    "duckdb_settings",
    "create_sort_key",
    "to_aggregate_state",
    "add_parquet_key",
    "which_secret",
)


def test_no_listed_function_reads_settings_files_or_the_database() -> None:
    assert not functions() & set(NEVER)
    assert not [
        name for name in functions() if name.startswith(("duckdb_", "pragma_", "pg_", "__"))
    ]


def test_every_listed_function_is_one_of_the_running_duckdb() -> None:
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()")
        known = {name.casefold() for (name,) in rows.fetchall()}
    own = {"bus_bytes", "middle", "median_of_others", "peak_tflops_of"}
    parsed = {
        "coalesce",
        "try",
        "unnest",
        "transaction_timestamp",
    }  # the parser makes others of them
    assert functions() - known - own - parsed == set()

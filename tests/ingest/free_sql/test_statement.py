"""The process of a statement: its rows, what it refuses, and how many it takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ingest.errors import UserError
from ingest.free_sql import statement as module
from ingest.free_sql.holder_handle import HolderHandle
from ingest.free_sql.statement_handle import StatementHandle
from ingest.run import Run


def answer(statement: StatementHandle, text: str) -> pa.Table:
    """All rows, and what follows them."""
    rows = statement.begin(text, 20.0, []).read_all()
    statement.finish()
    return rows


def test_rows_of_raw_tables_and_of_the_index(statement: StatementHandle) -> None:
    text = "SELECT step, dur_ns FROM steps WHERE rank = 1 ORDER BY step"
    assert answer(statement, text).to_pylist() == [
        {"step": step, "dur_ns": 100_000} for step in range(3)
    ]
    assert answer(statement, "SELECT sum(num_spans) AS n FROM step_rollup").to_pylist() == [
        {"n": 30}
    ]


def test_an_answer_of_many_batches_is_whole(statement: StatementHandle) -> None:
    numbers = answer(statement, "SELECT range AS n FROM range(100000)").column("n")
    assert numbers.to_pylist() == list(range(100_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT nothing FROM steps", '"nothing" not found'),
        ("FORM steps", "syntax error at or near"),
        ("SELECT 'a'::INTEGER", "Could not convert string 'a'"),
        ("FROM read_text('/etc/passwd')", "read_text"),
        ("SELECT 1; SELECT 2", "one SELECT"),
        ("DROP TABLE steps", "SELECT"),
    ],
)
def test_after_a_statement_that_failed_none_follows(
    statement: StatementHandle, text: str, message: str
) -> None:
    assert answer(statement, "FROM steps").num_rows == 6
    assert statement.may_follow
    with pytest.raises(UserError, match=message):
        answer(statement, text)
    assert not statement.may_follow


def test_a_process_takes_so_many_statements(statement: StatementHandle) -> None:
    for number in range(1, module._MOST_STATEMENTS + 1):
        assert answer(statement, f"SELECT {number} AS n").to_pylist() == [{"n": number}]
        assert statement.may_follow == (number < module._MOST_STATEMENTS)


def test_what_was_not_checked_is_followed_by_none(opened_run: Run) -> None:
    snapshot = opened_run.snapshot.path
    layers = frozenset({"connection", "kernel"})
    holder = HolderHandle(opened_run.folder, snapshot.parent, False, layers)
    try:
        statement = holder.statement(snapshot, lambda: False)
        assert answer(statement, "FROM duckdb_settings()").num_rows > 50
        assert not statement.may_follow
        statement.end()
        statement = holder.statement(snapshot, lambda: False)
        with pytest.raises(UserError, match="read-only"):
            answer(statement, "CREATE TABLE mine AS SELECT 1")
        statement.end()
    finally:
        holder.close()

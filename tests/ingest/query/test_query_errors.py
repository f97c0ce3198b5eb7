"""DuckDB's errors as one sentence: the reason, a hint, where in the text."""

from __future__ import annotations

import duckdb
import pytest

from ingest.query.query_errors import interrupted, sentence
from ingest.stopping import Stop


def _error(sql: str) -> Exception:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE steps (step INTEGER)")
        with pytest.raises(duckdb.Error) as raised:
            connection.execute(sql)
    return raised.value


def test_a_wrong_name_has_its_position() -> None:
    text = sentence(_error("SELECT step,\n  stop FROM steps"))
    assert text.startswith("SQL: Binder Error: ")
    assert text.endswith("(line 2, character 3)")


def test_little_memory_has_its_remedy() -> None:
    remedy = "the query needs more memory than it may use; choose fewer ranks or steps"
    assert sentence(MemoryError()) == remedy
    assert sentence(duckdb.Error("std::bad_alloc")) == remedy


def test_who_stopped_it_is_in_the_sentence() -> None:
    stop = Stop()
    assert "took longer than 2 s" in str(interrupted(2, stop))
    stop()
    assert "was interrupted" in str(interrupted(2, stop))

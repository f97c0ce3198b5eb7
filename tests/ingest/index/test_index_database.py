"""The index database: a transaction counts a generation or leaves nothing; damage is made again."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from ingest.errors import UserError
from ingest.index.index_database import IndexDatabase


@pytest.fixture
def database(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = IndexDatabase(tmp_path / "run", tmp_path)
    yield opened
    opened.close()


def _problems(database: IndexDatabase) -> list[tuple[str]]:
    return database.connection.execute("SELECT text FROM problems").fetchall()


def test_a_transaction_is_one_generation(database: IndexDatabase) -> None:
    identity, _, before = database.state.rpartition(":")
    with database.transaction():
        database.connection.execute("INSERT INTO problems VALUES ('a', 'b')")
    assert database.state == f"{identity}:{int(before) + 1}"
    assert _problems(database) == [("b",)]


def test_one_that_fails_leaves_nothing(database: IndexDatabase) -> None:
    before = database.state
    two_rows = "INSERT INTO problems VALUES ('a', 'b'); SELECT error('no')"
    with pytest.raises(duckdb.Error), database.transaction():
        database.connection.execute(two_rows)
    assert (database.state, _problems(database)) == (before, [])


def test_it_is_the_same_after_it_was_reopened(database: IndexDatabase) -> None:
    with database.transaction():
        database.connection.execute("INSERT INTO problems VALUES ('a', 'b')")
    state, connection = database.state, database.connection
    database.reopen()
    assert database.connection is not connection
    assert database.manifest.connection is database.connection
    assert (database.state, _problems(database)) == (state, [("b",)])


def test_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    database = IndexDatabase(tmp_path / "run", tmp_path)
    database.close()
    database.path.write_bytes(b"no database")
    database = IndexDatabase(tmp_path / "run", tmp_path)
    assert _problems(database) == []
    database.close()


def test_where_it_cannot_be_written_the_error_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        IndexDatabase(tmp_path / "run", tmp_path / "missing")

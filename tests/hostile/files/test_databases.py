"""Databases whose schema does things when it is read: none of it happens, each is a sentence."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.readers.parsing.sqlite_file import Database, Unreadable
from tests.reader_results import Imported

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COLUMNS = '"start", "end", deviceId, streamId, globalPid, shortName, demangledName'
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


def made(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.create_function("canary", 1, lambda _: 1, deterministic=True)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


VIEWS = {
    "a view": f"CREATE VIEW {KERNEL} AS SELECT 1 AS 'start', 2 AS 'end'",
    "an endless view": f"CREATE VIEW {KERNEL} AS {ENDLESS}",
    "a view of itself": f"CREATE VIEW {KERNEL} AS SELECT * FROM {KERNEL}",
    "a virtual table": f"CREATE VIRTUAL TABLE {KERNEL} USING fts5(start)",
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_only_looks_like_a_table_is_not_queried(tmp_path: Path, runs: Path, name: str) -> None:
    path = made(tmp_path / "a.sqlite", VIEWS[name], "CREATE TABLE StringIds (id, value)")
    begin = time.process_time()
    with pytest.raises(UserError, match=r"holds no GPU work|is a SQLite database"):
        import_paths([path], runs)
    assert time.process_time() - begin < 5


def test_computed_columns_are_not_computed(tmp_path: Path, runs: Path) -> None:
    columns = COLUMNS.replace('"end"', '"end" AS (canary("start")) VIRTUAL')
    path = made(
        tmp_path / "a.sqlite",
        f"CREATE TABLE {KERNEL} ({columns})",
        f'INSERT INTO {KERNEL} ("start", deviceId, streamId) VALUES (1, 0, 0)',
    )
    with pytest.raises(UserError, match=f"table {KERNEL} has no end"):
        import_paths([path], runs)


def test_triggers_and_indexes_change_nothing(tmp_path: Path, runs: Path) -> None:
    path = made(
        tmp_path / "a.sqlite",
        f"CREATE TABLE {KERNEL} ({COLUMNS})",
        f"INSERT INTO {KERNEL} VALUES (1, 2, 0, 0, NULL, NULL, NULL)",
        f"CREATE TRIGGER t AFTER INSERT ON {KERNEL} BEGIN DELETE FROM {KERNEL}; END",
        f'CREATE INDEX i ON {KERNEL} (canary("start"))',
    )
    content = path.read_bytes()
    assert Imported(path, into=runs).table("spans").num_rows == 1
    assert path.read_bytes() == content


def test_nothing_but_reading_one_table_is_allowed(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite", 'CREATE TABLE "a""; DROP" (x)', "CREATE TABLE b (x)")
    with Database(path) as database:
        assert list(database.rows('a"; DROP', ["x", 'y") FROM b; --'])) == []
        with pytest.raises(Unreadable, match="has no table"):
            list(database.rows("sqlite_master", ["sql"]))
        for text in (
            f"ATTACH '{tmp_path}/canary' AS c",
            "INSERT INTO b VALUES (1)",
            "PRAGMA journal_mode = WAL",
            "SELECT load_extension('x')",
        ):
            with suppress(sqlite3.Error):
                database._connection.execute(text).fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_schema_that_lies(tmp_path: Path, runs: Path) -> None:
    path = made(tmp_path / "a.sqlite", f"CREATE TABLE {KERNEL} ({COLUMNS})")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET rootpage = 999, sql = 'CREATE TABLE x' || name")
    connection.commit()
    connection.close()
    with pytest.raises(UserError, match=r"damaged SQLite database|is a SQLite database|table"):
        import_paths([path], runs)


def test_damaged_databases_are_one_sentence(tmp_path: Path, runs: Path) -> None:
    rows = ", ".join(f"({i}, {i + 1}, 0, 0, NULL, NULL, NULL)" for i in range(2000))
    whole = made(
        tmp_path / "whole.sqlite",
        f"CREATE TABLE {KERNEL} ({COLUMNS})",
        f"INSERT INTO {KERNEL} VALUES {rows}",
    ).read_bytes()
    seed = 20261121
    rng = random.Random(seed)
    path = tmp_path / "a.sqlite"
    for number in range(60):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(16, len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.randrange(len(data) // 2, len(data) + 1)])
        with suppress(UserError):  # anything else fails the test
            import_paths([path], runs / f"{seed}-{number}")

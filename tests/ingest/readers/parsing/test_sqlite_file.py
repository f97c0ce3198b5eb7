"""SQLite files: cut off, of other programs, with queries without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.limits import Limits
from ingest.readers.parsing import sqlite_file
from tests.ingest.readers.test_nsys import (
    KERNELS,
    PROCESS,
    START_NS,
    database,
    nsys_tables,
)
from tests.reader_results import Imported


def test_a_database_cut_off_keeps_what_was_before(tmp_path: Path, runs: Path) -> None:
    tables = nsys_tables()
    rows = [(START_NS + i, START_NS + i + 1, 0, 7, PROCESS, 1, 1) for i in range(20_000)]
    columns, _ = tables.pop("CUPTI_ACTIVITY_KIND_KERNEL")
    path = database(tmp_path / "a.sqlite", tables | {"CUPTI_ACTIVITY_KIND_KERNEL": (columns, rows)})
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    run = Imported(path, into=runs)
    assert 1 < run.rows("spans", "kind").count(("kernel",)) < 20_000
    assert "is a damaged SQLite database, read as far as it goes" in run.problems[0]
    assert any("CUPTI_ACTIVITY_KIND_KERNEL was read only in part" in p for p in run.problems)


def test_a_query_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i, i + 1, 0, 7, PROCESS, 1, 1) for i in range(50_000)]
    path = database(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": (KERNELS, rows)})
    monkeypatch.setattr(sqlite_file, "limits", lambda: Limits(max_seconds=1))
    opened = sqlite_file.Database(path)
    opened._until_s -= 2
    with opened, pytest.raises(sqlite_file.Unreadable, match="RANKSCOPE_MAX_SECONDS=1"):
        list(opened.rows("CUPTI_ACTIVITY_KIND_KERNEL", ["start"]))


def test_other_databases_are_refused(tmp_path: Path, runs: Path) -> None:
    path = database(tmp_path / "a.sqlite", {"mine": ("x", [(1,)])})
    with pytest.raises(UserError, match="is a SQLite database"):
        import_paths([path], runs)

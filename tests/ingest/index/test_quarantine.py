"""Files that are not what they claim to be are kept, within bounds, with a sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.index import quarantine
from ingest.index.index_database import IndexDatabase
from ingest.index.quarantine import Quarantine


def _set_aside(run: Path, name: str) -> None:
    (run / name).write_text("x")
    Quarantine(run).set_aside(run / name, f"{name} is no segment")


def test_a_file_is_moved_and_named(tmp_path: Path) -> None:
    _set_aside(tmp_path, "a")
    assert (tmp_path / "quarantine" / "a").read_text() == "x"
    sentence = "a is no segment; it was set aside in quarantine/"
    assert Quarantine(tmp_path).sentences() == [sentence]
    _set_aside(tmp_path, "a")
    assert Quarantine(tmp_path).sentences() == [sentence]


def test_where_it_is_full_files_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_FILES", 2)
    for name in "abcd":
        _set_aside(tmp_path, name)
    assert sorted(p.name for p in (tmp_path / "quarantine").iterdir() if len(p.name) == 1) == [
        "a",
        "b",
    ]
    assert Quarantine(tmp_path).sentences()[-1].startswith("2 more files of ranks")


def test_the_index_lists_its_sentences_once(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    database = IndexDatabase(tmp_path, tmp_path / "index")
    _set_aside(tmp_path, "a")
    aside = Quarantine(tmp_path)
    aside.store_problems(database)
    state = database.state
    aside.store_problems(database)
    assert database.state == state
    rows = database.connection.execute("SELECT text FROM problems").fetchall()
    assert rows == [("a is no segment; it was set aside in quarantine/",)]
    database.close()

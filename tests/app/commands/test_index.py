"""rankscope index: one line per run and pass."""

from __future__ import annotations

import json

from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Indexer
from tests.app.commands.test_query import output_of
from tests.runs_builder import two_rank_run


def test_index_prints_what_it_did_and_then_nothing(tmp_path, capsys):
    two_rank_run(tmp_path / "runs" / "a")
    assert output_of(capsys, "index", tmp_path / "runs").startswith("a: 8 new files, 0 merged")
    assert output_of(capsys, "index", tmp_path / "runs", "--json") == ""


def test_index_as_json(tmp_path, capsys):
    two_rank_run(tmp_path / "a")
    answer = json.loads(output_of(capsys, "index", tmp_path / "a", "--json"))
    assert (answer["run"], answer["new_files"], answer["set_aside"], answer["merged"]) == (
        "a",
        8,
        0,
        0,
    )


def test_index_of_nothing_and_of_a_run_that_is_taken(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "contains no run" in output_of(capsys, "index", tmp_path / "empty", code=2)
    assert "does not exist" in output_of(capsys, "index", tmp_path / "nowhere", code=2)
    two_rank_run(tmp_path / "a")
    with Indexer(tmp_path / "a"):
        assert "another process" in output_of(capsys, "index", tmp_path / "a", code=2)


def test_an_index_that_another_host_took_over_is_one_sentence(tmp_path, capsys, monkeypatch):
    folder = two_rank_run(tmp_path / "a").folder
    monkeypatch.setattr(IndexLock, "is_ours", False)
    said = output_of(capsys, "index", folder, code=2)
    assert "another host is indexing" in said
    assert "stop it, or use the index that it publishes" in said

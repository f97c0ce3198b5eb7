"""Run folders that a path names: itself, or those directly below it."""

from __future__ import annotations

from pathlib import Path

from ingest.run_folder.native import runs_at
from tests.runs_builder import RunBuilder


def test_a_run_a_folder_of_runs_and_anything_else(tmp_path: Path) -> None:
    for name in ("b", "a", ".import-x"):
        RunBuilder(tmp_path / name, 1)
    (tmp_path / "other").mkdir()
    assert runs_at(tmp_path / "a") == [tmp_path / "a"]
    assert runs_at(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert runs_at(tmp_path / "missing") == []

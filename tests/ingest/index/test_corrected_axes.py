"""Axes of process groups follow a layout that was corrected by hand, and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.layout_correction import correct, layout_of, undo
from ingest.run import Run, open_run
from tests.runs_builder import RunBuilder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An import of four ranks with groups of two, along an axis nobody named."""
    builder = RunBuilder(tmp_path / "run", 4, source="kineto")
    builder.group(1, [0, 1], "unknown")
    builder.group(2, [0, 2], "unknown")
    for rank in range(4):
        builder.span(rank, 0, "forward", 0, 5)
    builder.rank_files()
    builder.publish()
    return builder.folder


def _axes(run: Run) -> dict[int, str]:
    run.refresh()
    rows = run.index_rows("SELECT group_id, axis FROM group_members")
    return {row["group_id"]: row["axis"] for row in rows}


def test_they_follow_the_correction_and_return(folder: Path) -> None:
    with open_run(folder) as run:
        assert _axes(run) == {1: "unknown", 2: "unknown"}
        correct(run, layout_of({"pp": 2, "dp": 2}, "pp-dp"))
        assert _axes(run) == {1: "dp", 2: "pp"}
        undo(run)
        assert _axes(run) == {1: "unknown", 2: "unknown"}


def test_they_return_at_once_in_a_run_that_had_not_changed_for_long(folder: Path) -> None:
    for name in ("segments", "ranks", "run.json"):
        os.utime(folder / name, (1, 1))
    with open_run(folder) as run:
        before = _axes(run)
        correct(run, layout_of({"pp": 2, "dp": 2}, "pp-dp"))
        assert _axes(run) != before
        undo(run)
        assert _axes(run) == before

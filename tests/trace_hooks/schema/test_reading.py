"""Rows of a run folder that nobody has indexed."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

from trace_hooks.schema import TABLES, SegmentName, publish_table
from trace_hooks.schema.bundles import BundleName, write_bundle
from trace_hooks.schema.reading import read_rows

NAME = BundleName(0, 0, 1_795_743_692_366_066_598)


def marks(*places: tuple[int, int]) -> pa.Table:
    """Rows with these ranks and times."""
    row = {"attempt": 0, "step": 0, "kind": "note", "text": "t", "args": None}
    rows = [row | {"rank": rank, "ts_ns": at} for rank, at in places]
    return pa.Table.from_pylist(rows, schema=TABLES["marks"].schema)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A segment that a rank wrote, then a bundle of two."""
    folder = tmp_path / "segments"
    folder.mkdir()
    publish_table(marks((1, 1)), folder / str(SegmentName("marks", 0, 1, 0)))
    with (folder / str(NAME)).open("xb") as file:
        write_bundle(file, NAME, {"marks": marks((0, 2), (1, 2), (70, 2))})
    return tmp_path


def places(run: Path) -> list[tuple[int, int]]:
    return [(row["rank"], row["ts_ns"]) for row in read_rows(run, "marks").to_pylist()]


def test_rows_come_from_segments_and_bundles_rank_by_rank(run: Path) -> None:
    assert places(run) == [(0, 2), (1, 1), (1, 2), (70, 2)]
    assert read_rows(run, "spans").num_rows == 0


def test_a_bundle_that_is_unpacked_meanwhile_gives_no_row_twice(run: Path) -> None:
    before = places(run)
    with ZipFile(run / "segments" / str(NAME)) as bundle:
        bundle.extractall(run / "segments")
    assert places(run) == before
    (run / "segments" / str(NAME)).unlink()
    assert places(run) == before


def test_a_table_that_does_not_exist_is_an_error(run: Path) -> None:
    with pytest.raises(KeyError, match="spins"):
        read_rows(run, "spins")

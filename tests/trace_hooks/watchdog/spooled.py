"""Batches in a spool, and what became of their rows."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.job.spool import Batch, Destination
from trace_hooks.recording.arrow_columns import row_table
from trace_hooks.recording.clock import Anchor


def marks(*numbers: int) -> pa.Table:
    """Rows of `marks` without attempt and rank, told apart by their text."""
    rows = [{"step": 0, "ts_ns": n, "kind": "note", "text": str(n)} for n in numbers]
    return row_table("marks", rows, Anchor(offset_ns=0))


def batch(folder: Path, rank: int, *numbers: int) -> Batch:
    """A batch of such rows."""
    from trace_hooks.recording.arrow_columns import placed

    return Batch(
        Destination(folder, 0, rank), {"marks": placed("marks", [marks(*numbers)], 0, rank)}
    )


def published(folder: Path) -> list[int]:
    """The numbers of all rows that were published, sorted."""
    found: list[str] = []
    for path in (folder / "segments").glob("marks-*.parquet"):
        found += pq.read_table(path).column("text").to_pylist()
    for path in (folder / "segments").glob("bundle-*.zip"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                found += pq.read_table(io.BytesIO(archive.read(name))).column("text").to_pylist()
    return sorted(map(int, found))

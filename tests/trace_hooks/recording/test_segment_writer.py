"""A folder that cannot be written: rows are dropped and counted, and it recovers by itself."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pyarrow.parquet as pq

from trace_hooks.recording.arrow_columns import row_table
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.segment_writer import SegmentWriter
from trace_hooks.schema import TABLES


def marks(count: int) -> list:
    rows = [
        {"step": 0, "ts_ns": n, "kind": "note", "text": "x" * 50 + str(n)} for n in range(count)
    ]
    return [row_table("marks", rows, Anchor(offset_ns=0))]


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rows_come_back_as_written_and_numbers_count_up(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, attempt=1, rank=6)
    assert writer.write("marks", marks(2))
    assert writer.write("marks", marks(1) + marks(2))
    names = sorted(path.name for path in (tmp_path / "segments").iterdir())
    assert names == [f"marks-0001-00006-0000000{n}.parquet" for n in (0, 1)]
    table = pq.read_table(tmp_path / "segments" / names[1])
    assert table.schema.equals(TABLES["marks"].schema, check_metadata=False)
    assert table.column("rank").to_pylist() == [6, 6, 6]


def test_a_file_in_place_of_the_folder_drops_counts_and_recovers(tmp_path: Path) -> None:
    seconds = Seconds()
    blocked = tmp_path / "run"
    blocked.write_text("in the way")
    writer = SegmentWriter(blocked, 0, 0, seconds)
    assert not writer.write("marks", marks(3))
    assert not writer.write("marks", marks(2))  # paused: not even tried
    assert writer.dropped == 5
    blocked.unlink()
    assert not writer.write("marks", marks(1))
    seconds.now = 1.5
    assert writer.write("marks", marks(4))
    assert writer.dropped == 6


def test_the_pause_grows_while_writing_fails(tmp_path: Path) -> None:
    seconds = Seconds()
    (tmp_path / "run").write_text("in the way")
    writer = SegmentWriter(tmp_path / "run", 0, 0, seconds)
    tries = 0
    for tenth in range(700):
        seconds.now = tenth / 10
        tries += not writer.pausing
        writer.write("marks", marks(1))
    assert tries == 7  # at 0, 1, 3, 7, 15, 31 and 61 s
    assert writer.dropped == 700


def test_no_space_leaves_no_half_file(tmp_path: Path) -> None:
    """A file size limit stands for a full disk: the write fails in the middle."""
    writer = SegmentWriter(tmp_path, 0, 0)
    assert writer.write("marks", marks(1))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
        assert not writer.write("marks", marks(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert writer.dropped == 5000
    assert [p.name for p in (tmp_path / "segments").iterdir()] == [
        "marks-0000-00000-00000000.parquet"
    ]

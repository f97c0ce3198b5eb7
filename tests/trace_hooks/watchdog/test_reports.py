"""What the watchdog writes into a run folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from trace_hooks.job.process_info import host_name
from trace_hooks.recording.flight_ring import RingHeader
from trace_hooks.watchdog.reports import (
    FIRST_NUMBER,
    MOST_STACKS,
    Report,
    write_report,
    write_rows,
)

HEADER = RingHeader(4096, 0, 77, 5, 1, 3, 8, 1_000, "night", 50, 12, False, "step", "all_reduce", 7)


def report(state: str, text: str = "it is gone", ring: bytes = b"ring") -> Report:
    return Report(HEADER, state, text, since_ns=9, time_ns=2_000, stacks="Thread 1", ring=ring)


def test_stacks_ring_state_and_mark(tmp_path: Path) -> None:
    write_report(tmp_path, report("lost"))
    assert (tmp_path / "stacks/0001-00003-0.txt").read_text() == "Thread 1"
    assert (tmp_path / "rings/0001-00003.ring").read_bytes() == b"ring"
    state = json.loads((tmp_path / f"watchdog-{host_name()}.json").read_text())
    assert state["ranks"]["0001-00003"]["state"] == "lost"
    (path,) = (tmp_path / "segments").glob("*")
    assert path.name == f"marks-0001-00003-{FIRST_NUMBER:08d}.parquet"
    (mark,) = pq.read_table(path).to_pylist()
    assert (mark["kind"], mark["text"], mark["rank"]) == ("lost", "rank 3: it is gone", 3)
    assert mark["ts_ns"] == 3_000  # of the rank's clock, in Unix ns
    assert json.loads(mark["args"])["stacks"] == "stacks/0001-00003-0.txt"


def test_later_reports_keep_earlier_stacks_and_marks(tmp_path: Path) -> None:
    for state in ("silent", "lost"):
        write_report(tmp_path, report(state))
    assert len(list((tmp_path / "stacks").glob("*.txt"))) == 2
    assert len(list((tmp_path / "segments").glob("*"))) == 2


def test_a_rank_that_falls_silent_again_and_again_fills_no_disk(tmp_path: Path) -> None:
    for number in range(MOST_STACKS + 3):
        write_report(tmp_path, replace(report("silent"), stacks=f"Thread {number}"))
    assert len(list((tmp_path / "stacks").glob("*.txt"))) == MOST_STACKS
    newest = tmp_path / f"stacks/0001-00003-{MOST_STACKS - 1}.txt"
    assert newest.read_text() == f"Thread {MOST_STACKS + 2}"


def test_a_rank_that_runs_again_gets_no_mark(tmp_path: Path) -> None:
    write_report(tmp_path, report("running", ring=b""))
    assert not (tmp_path / "segments").exists()
    assert not (tmp_path / "rings").exists()


def test_a_report_of_another_attempt() -> None:
    assert report("lost").of_attempt(4).header.attempt == 4


def test_rows_for_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    folder = tmp_path / "runs/night"
    write_rows(folder, HEADER, {"marks": [{"ts_ns": 1, "step": 0, "kind": "note", "text": "x"}]})
    (path,) = (folder / "segments").glob("*")
    assert path.name == f"marks-0001-00003-{FIRST_NUMBER:08d}.parquet"

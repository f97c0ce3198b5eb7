"""XPUTimer's JSON lines of HCCL calls: lines as its hook for Ascend prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.line_files import write_lines
from tests.reader_results import Imported

CALL = {
    "ts_us": 5_000_000,
    "name": "HcclAllReduce",
    "type": "coll",
    "dur_us": 250,
    "psize": 4096,
    "hang": False,
}


def test_calls_are_spans_that_end_at_their_time(tmp_path: Path, runs: Path) -> None:
    name = "ascend_trace.rank3.pid77.jsonl"
    hung = CALL | {"name": "HcclSend", "ts_us": 9_000_000, "dur_us": 2.5e6, "hang": True}
    run = Imported(write_lines(tmp_path / "in", name, CALL, hung), into=runs)
    assert (run.info["source"], run.info["clock"]) == ("xpu_timer_ascend", "unknown")
    columns = ("rank", "ts_ns", "dur_ns", "kind", "name", "track", "num_bytes")
    assert run.rows("spans", *columns) == [
        (3, 4_999_750_000, 250_000, "other_comm", "HcclAllReduce", "HCCL calls", 4096),
        (3, 6_500_000_000, 2_500_000_000, "other_comm", "HcclSend", "HCCL calls", 4096),
    ]
    assert run.rows("marks", "kind", "ts_ns", "text") == [
        ("note", 6_500_000_000, "XPUTimer reports a hang: HcclSend took 2,500.0 ms")
    ]
    assert run.ranks[3]["pid"] == 77
    assert any("may return before the communication has run" in guess for guess in run.guesses)
    assert run.table("collectives").num_rows == run.table("steps").num_rows == 0


def test_files_of_ranks_are_one_run(tmp_path: Path, runs: Path) -> None:
    for number in (0, 12):
        write_lines(tmp_path / "in", f"ascend_trace.rank{number}.pid{number + 1}.jsonl", CALL)
    write_lines(tmp_path / "in", "ascend_trace.rankNA.pid5.jsonl", CALL)
    write_lines(tmp_path / "in", "ascend_trace.rank12.pid99.jsonl", CALL)
    run = Imported(tmp_path / "in", into=runs)
    assert list(run.ranks) == [0, 1, 12]
    assert any("rankNA.pid5.jsonl names no rank: shown as rank 1" in g for g in run.guesses)
    assert "says it is rank 12" in run.problems[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"ts_us": "5"},
        {"ts_us": -1},
        {"ts_us": 10**30},
        {"dur_us": None},
        {"dur_us": True},
        {"dur_us": float("nan")},
        {"name": 3},
    ],
)
def test_lines_that_are_no_calls_are_counted(
    tmp_path: Path, runs: Path, damage: dict[str, Any]
) -> None:
    path = write_lines(tmp_path / "in", "ascend_trace.rank0.pid1.jsonl", CALL, CALL | damage)
    run = Imported(path, into=runs)
    assert run.table("spans").num_rows == 1
    assert "1 bad lines left out (line 2)" in run.problems[0]

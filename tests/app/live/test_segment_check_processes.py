"""Processes that check received segments: replaced after crashes, limited in time and memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from app.live import segment_check_processes
from app.live.segment_check_processes import SegmentChecks
from ingest.errors import UserError
from tests.app.live.test_segment_check import NAME, steps, written
from tests.runs_builder import table
from trace_hooks.schema import SegmentName


@pytest.fixture
def checks() -> Iterator[SegmentChecks]:
    found = SegmentChecks(memory_bytes=96 << 20)
    yield found
    for process in found._idle:
        process._end()


@pytest.mark.long
def test_a_file_that_grows_beyond_all_memory_is_a_problem_and_the_next_one_is_checked(
    tmp_path: Path, checks: SegmentChecks
) -> None:
    name = SegmentName("groups", 2, 3, 0)
    row = {"attempt": 2, "rank": 3, "step": 0, "group_id": 1, "name": "a", "ranks": []}
    rows = table("groups", [row])
    many = pa.ListArray.from_arrays(
        [0, 40_000_000], pa.repeat(pa.scalar(7, pa.int32()), 40_000_000)
    )
    column = rows.schema.get_field_index("ranks")
    bomb = written(rows.set_column(column, rows.schema.field(column), many))
    assert len(bomb) < 100_000
    path = tmp_path / str(name)
    path.write_bytes(bomb)
    assert "needs more memory to decode" in checks.problem_of(path, name)
    path.write_bytes(written(rows))
    assert checks.problem_of(path, name) == ""


def test_a_process_that_was_ended_is_replaced(tmp_path: Path, checks: SegmentChecks) -> None:
    path = tmp_path / str(NAME)
    path.write_bytes(written(steps()))
    assert checks.problem_of(path, NAME) == ""
    os.kill(checks._idle[0]._process.pid, signal.SIGKILL)
    assert checks.problem_of(path, NAME) == ""


def test_a_file_that_takes_too_long_is_a_problem(
    tmp_path: Path, checks: SegmentChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_check_processes, "LONGEST_S", 0.001)
    path = tmp_path / str(NAME)
    path.write_bytes(written(steps(200_000)))
    assert "takes more than 0.001 s" in checks.problem_of(path, NAME)
    monkeypatch.undo()
    assert checks.problem_of(path, NAME) == ""


def test_a_sound_file_on_a_slow_machine_is_not_set_aside(
    tmp_path: Path, checks: SegmentChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is stopped: it waits for a disk, say, and uses no time of the processor."""
    path = tmp_path / str(NAME)
    path.write_bytes(written(steps()))
    assert checks.problem_of(path, NAME) == ""
    os.kill(checks._idle[0]._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(segment_check_processes, "LONGEST_WAIT_S", 0.2)
    monkeypatch.setattr(segment_check_processes, "LONGEST_S", 0.2)
    with pytest.raises(UserError, match=r"could not check .* the rank sends it again"):
        checks.problem_of(path, NAME)
    monkeypatch.undo()
    assert checks.problem_of(path, NAME) == ""


def test_a_disk_that_fails_is_no_verdict_on_the_file(tmp_path: Path, checks: SegmentChecks) -> None:
    with pytest.raises(UserError, match="No such file or directory") as raised:
        checks.problem_of(tmp_path / str(NAME), NAME)
    assert str(tmp_path) not in str(raised.value)

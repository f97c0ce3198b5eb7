"""A self-test refuses while ranks of a job live on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.job.process_info import host_name
from trace_hooks.selftest.compute import Own
from trace_hooks.selftest.refusal import why_busy

CPU = Own("cpu", "cpu", "", None)


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process.pid
        process.kill()


def job(folder: Path, **values: Any) -> None:
    info = {
        "rank": 3,
        "host": host_name(),
        "pid": os.getpid(),
        "started_ns": time.time_ns(),
        "end": None,
    }
    (folder / "job/ranks").mkdir(parents=True, exist_ok=True)
    (folder / "job/ranks/0000-00003.json").write_text(json.dumps(info | values))


def test_a_live_rank(tmp_path: Path, pid: int) -> None:
    job(tmp_path, pid=pid)
    assert why_busy(tmp_path, CPU) == [f"rank 3 of the run job is running on {host_name()}"]


@pytest.mark.parametrize(
    "values",
    [
        {"end": {"status": "finished"}},
        {"host": "elsewhere"},
        {"started_ns": 10**18},  # the process with this number began later
        {"pid": 0},
        {"pid": 2**22 + 1},
    ],
)
def test_ranks_that_have_ended_or_are_elsewhere(
    tmp_path: Path, pid: int, values: dict[str, Any]
) -> None:
    job(tmp_path, **({"pid": pid} | values))
    assert why_busy(tmp_path, CPU) == []


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert why_busy(tmp_path / "missing", CPU) == []
    (tmp_path / "job/ranks").mkdir(parents=True)
    (tmp_path / "job/ranks/0000-00000.json").write_text("{")
    (tmp_path / "job/ranks/0000-00001.json").write_text("[]")
    assert why_busy(tmp_path, CPU) == []

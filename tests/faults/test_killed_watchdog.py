"""SIGKILL of the process that watches a host's ranks: training goes on and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.serving import ROUNDS
from tests.faults.training import TRAIN
from tests.trace_hooks.processes import begin, rank_files, rows
from tests.waiting import wait_until


def watchdogs_of(folder: Path) -> list[int]:
    """Watchdogs of the ranks that keep their rings below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "trace_hooks.watchdog" in words and any(w.startswith(str(folder)) for w in words):
            found.append(int(path.parent.name))
    return found


@pytest.mark.faults
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_rank_outlives_its_watchdog_and_loses_nothing(tmp_path: Path, number: int) -> None:
    job = begin(tmp_path, TRAIN)
    try:
        wait_until(lambda: watchdogs_of(tmp_path))
        time.sleep(random.Random(number).uniform(0.0, 1.0))
        for pid in watchdogs_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        assert job.poll() is None
        (tmp_path / "stop").touch()
        out, err = job.communicate(timeout=90)
    finally:
        job.kill()
        job.communicate()
    assert (job.returncode, err) == (0, "")
    assert [row["step"] for row in rows(tmp_path, "steps")] == list(range(int(out)))
    assert sum(row["name"] == "work" for row in rows(tmp_path, "spans")) == int(out)
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
    assert not list((tmp_path / "rings").rglob("*.ring"))  # node-local memory is given back

"""The launcher of a job: its ranks make one group, and none outlives the others or the launcher."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.forks import Ended, Fork, ended, fork
from tests.waiting import wait_until

pytestmark = pytest.mark.torch


def started(what: str, folder: Path, num_ranks: int = 2) -> Fork:
    """The launcher of ranks that do something."""
    command = ["-m", "tests.sample_traces.jobs.launched_job", what, str(folder), str(num_ranks)]
    return fork(folder / "job", command, os.environ)


def ranks_of(folder: Path) -> list[int]:
    """Process numbers of two ranks, once both run."""
    files = [folder / str(rank) for rank in range(2)]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files))
    return [int(file.read_text()) for file in files]


def is_alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def end_of(job: Fork) -> Ended:
    [done] = ended([job], seconds=60)
    return done


@pytest.mark.long
def test_ranks_make_one_group_and_end_as_processes_do(tmp_path: Path) -> None:
    done = end_of(started("reduce", tmp_path, num_ranks=3))
    assert (done.code, done.err) == (0, "")
    found = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(3)]
    assert found == [[rank, 3, "gloo", 6.0] for rank in range(3)]
    assert all((tmp_path / f"{rank}.exit").exists() for rank in range(3))


def test_one_that_fails_ends_the_others(tmp_path: Path) -> None:
    job = started("fail", tmp_path)
    pids = ranks_of(tmp_path)
    done = end_of(job)
    assert done.code == 1
    assert "ValueError: what went wrong" in done.err
    assert "rank 1 ended with code 1" in done.err
    assert not any(map(is_alive, pids))
    assert [(tmp_path / f"{rank}.exit").exists() for rank in range(2)] == [False, True]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_the_launcher_ends_the_ranks(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    job = started("wait", tmp_path)
    pids = ranks_of(tmp_path)
    begun_s = time.monotonic()
    assert job.process.pid is not None
    os.kill(job.process.pid, number)
    assert end_of(job).code == code
    assert not any(map(is_alive, pids))
    assert time.monotonic() - begun_s < 60  # the ranks would sleep for 600 s


def test_a_signal_that_comes_while_ranks_are_forked_ends_them(tmp_path: Path) -> None:
    assert end_of(started("forking", tmp_path)).code == 143


def test_ranks_that_ignore_the_signal_are_killed(tmp_path: Path) -> None:
    job = started("deaf", tmp_path)
    pids = ranks_of(tmp_path)
    assert job.process.pid is not None
    os.kill(job.process.pid, signal.SIGTERM)
    assert end_of(job).code == 143
    assert not any(map(is_alive, pids))


def test_no_rank_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    job = started("deaf", tmp_path)
    pids = ranks_of(tmp_path)
    job.process.kill()
    assert end_of(job).code == -signal.SIGKILL
    wait_until(lambda: not any(map(is_alive, pids)))

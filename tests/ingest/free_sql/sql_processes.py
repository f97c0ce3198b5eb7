"""The processes that run SQL, as the machine lists them."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.run import Run
from ingest.stopping import Stop

HOLDER = "ingest.free_sql.holder"
SOON_S = 20.0
"""Far less than the minute that a process gets to open a snapshot."""


def command_of(pid: int) -> str:
    """Its command line, empty where it has ended."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """The process that started it, 0 where it has ended."""
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def processes(run: Run) -> list[int]:
    """The process that holds the snapshot of a run and those of its statements."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if HOLDER in (text := command_of(pid)) and str(run.folder) in text]


def holder_of(run: Run) -> int:
    """The process that holds the snapshot of a run."""
    [pid] = [pid for pid in processes(run) if parent_of(pid) == os.getpid()]
    return pid


def until_gone(pids: list[int]) -> None:
    """Wait until all of them have ended."""
    deadline_s = time.monotonic() + 60
    while any(command_of(pid) for pid in pids):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def num_rows(run: Run, limit_s: float | None = None, stop: Stop | None = None) -> int:
    """Number of rows of steps, read by a process."""
    with run.sql_reading("FROM steps", limit_s, stop) as rows:
        return rows.read_all().num_rows


def _first_free_descriptor(pid: int) -> int:
    listed = list((Path("/proc") / str(pid) / "fd").iterdir())
    taken = {int(path.name) for path in listed if path.is_symlink()}  # less that of the folder
    return min(set(range(len(taken) + 1)) - taken)


@contextmanager
def no_descriptor_left(pid: int) -> Iterator[None]:
    """While the process can open no other file."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_first_free_descriptor(pid), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

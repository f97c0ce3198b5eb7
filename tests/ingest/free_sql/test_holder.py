"""The process that holds a snapshot: what statements have of it, and when it does not answer."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.free_sql.connection import memory_bytes
from ingest.free_sql.holder_handle import HolderHandle
from ingest.run import Run, open_run
from ingest.stopping import Interrupted, Stop
from tests.ingest.free_sql.sql_processes import holder_of, parent_of, processes, until_gone
from tests.runs_builder import two_rank_run

SOON_S = 20.0
"""Far less than the minute that a process gets to open a snapshot."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    builder = two_rank_run(tmp_path / "job")
    with open_run(builder.folder) as opened:
        opened.get_sql_ready()
        time.sleep(0.5)  # the process that waits is forked after that, and sets its limits
        yield opened


def forked_by(run: Run, holder: int) -> list[int]:
    return [pid for pid in processes(run) if parent_of(pid) == holder]


def ready_process(run: Run, holder: int) -> int:
    """The process that waits for the next statement."""
    deadline_s = time.monotonic() + SOON_S
    while True:
        forked = forked_by(run, holder)
        if len(forked) == 1:
            return forked[0]
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_statement_has_its_limit_of_addresses_and_ends_before_others(run: Run) -> None:
    pid = ready_process(run, holder_of(run))
    process = Path("/proc") / str(pid)
    assert (process / "oom_score_adj").read_text() == "1000\n"
    pages = int((process / "statm").read_text().split()[0])
    limit, _ = resource.prlimit(pid, resource.RLIMIT_AS)
    more = limit - pages * resource.getpagesize()
    assert memory_bytes() + (448 << 20) < more <= memory_bytes() + (512 << 20)


@contextmanager
def hanging(run: Run) -> Iterator[int]:
    """While its holder does not answer."""
    pid = holder_of(run)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def num_rows(run: Run, limit_s: float | None = None, stop: Stop | None = None) -> int:
    with run.sql_reading("FROM steps", limit_s, stop) as rows:
        return rows.read_all().num_rows


def test_the_time_limit_covers_the_wait_for_a_process(run: Run) -> None:
    with ThreadPoolExecutor(3) as threads, hanging(run):
        waiting = [threads.submit(num_rows, run, 1.0) for _ in range(3)]
        for one in waiting:
            with pytest.raises(Interrupted, match=r"took longer than 1\.0 s"):
                one.result(SOON_S)
    assert num_rows(run) == 6


def test_a_stop_ends_the_wait_for_a_process_and_no_other_statement(run: Run) -> None:
    stop = Stop()
    with run.sql_reading("SELECT range FROM range(50000000)") as rows:
        rows.read_next_batch()
        with ThreadPoolExecutor(1) as threads, hanging(run):
            waiting = threads.submit(num_rows, run, None, stop)
            time.sleep(0.3)
            stop()
            with pytest.raises(Interrupted, match="was interrupted"):
                waiting.result(SOON_S)
        assert num_rows(run) == 6
        assert sum(batch.num_rows for batch in rows) > 40_000_000


def test_a_run_is_closed_while_a_statement_waits_for_a_process(run: Run) -> None:
    closed = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        pid = holder_of(run)
        os.kill(pid, signal.SIGSTOP)
        waiting: Future[int] = threads.submit(num_rows, run)
        time.sleep(0.3)
        threads.submit(run.close).add_done_callback(lambda _: closed.set())
        assert closed.wait(SOON_S)
        with pytest.raises(UserError, match="the run was closed"):
            waiting.result(SOON_S)
    until_gone([pid])
    assert processes(run) == []


def first_free_descriptor(pid: int) -> int:
    listed = list((Path("/proc") / str(pid) / "fd").iterdir())
    taken = {int(path.name) for path in listed if path.is_symlink()}  # less that of the folder
    return min(set(range(len(taken) + 1)) - taken)


@contextmanager
def no_descriptor_left(pid: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free_descriptor(pid), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_a_server_without_descriptors_gets_a_sentence_and_keeps_its_holder(run: Run) -> None:
    snapshot = run.snapshot.path
    handle = HolderHandle(run.folder, snapshot.parent, False, wire.LAYERS)
    handle.statement(snapshot, lambda: False).end()
    [pid] = {p for p in processes(run) if parent_of(p) == os.getpid()} - {_pid_of_run(run)}
    with no_descriptor_left(os.getpid()), pytest.raises(UserError, match="too many files open"):
        handle.statement(snapshot, lambda: False)
    handle.statement(snapshot, lambda: False).end()
    handle.retire()  # ends it, as no statement is under way
    until_gone([pid])


def _pid_of_run(run: Run) -> int:
    return min(p for p in processes(run) if parent_of(p) == os.getpid())


def test_a_failed_fork_costs_no_statement_that_is_under_way(run: Run) -> None:
    holder = holder_of(run)
    ready_process(run, holder)
    with no_descriptor_left(holder):
        assert num_rows(run) == 6  # in the process that waited; no other can be forked
        with pytest.raises(UserError, match="no process can be started for the query"):
            num_rows(run)
        assert holder_of(run) == holder
    assert num_rows(run) == 6
    assert holder_of(run) == holder

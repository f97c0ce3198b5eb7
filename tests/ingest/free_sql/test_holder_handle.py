"""The server's end of the process that holds a snapshot: waits for it, stops, and its end."""

from __future__ import annotations

import os
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
from ingest.free_sql.holder_handle import HolderHandle
from ingest.run import Run, open_run
from ingest.stopping import Interrupted, Stop
from tests.ingest.free_sql.sql_processes import (
    SOON_S,
    command_of,
    holder_of,
    no_descriptor_left,
    num_rows,
    parent_of,
    processes,
    until_gone,
)
from tests.runs_builder import two_rank_run


@pytest.fixture(scope="module")
def run(opened_run: Run) -> Run:
    """A run with a process that waits for its first statement."""
    opened_run.get_sql_ready()
    return opened_run


@contextmanager
def hanging(run: Run) -> Iterator[int]:
    """While its holder does not answer."""
    pid = holder_of(run)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_time_limit_covers_the_wait_for_a_process(run: Run) -> None:
    with ThreadPoolExecutor(3) as threads, hanging(run):
        waiting = [threads.submit(num_rows, run, 0.3) for _ in range(3)]
        for one in waiting:
            with pytest.raises(Interrupted, match=r"took longer than 0\.3 s"):
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


def test_a_run_is_closed_while_a_statement_waits_for_a_process(tmp_path: Path) -> None:
    run = open_run(two_rank_run(tmp_path / "job").folder)
    run.get_sql_ready()
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
    until_gone(processes(run))


def test_a_server_without_descriptors_gets_a_sentence_and_keeps_its_holder(run: Run) -> None:
    snapshot = run.snapshot.path
    before = _holders(run)
    handle = HolderHandle(run.folder, snapshot.parent, False, wire.LAYERS)
    handle.statement(snapshot, lambda: False).end()
    [pid] = _holders(run) - before
    with no_descriptor_left(os.getpid()), pytest.raises(UserError, match="too many files open"):
        handle.statement(snapshot, lambda: False)
    handle.statement(snapshot, lambda: False).end()
    handle.retire()  # ends it, as no statement is under way
    until_gone([pid])


def _holders(run: Run) -> set[int]:
    return {pid for pid in processes(run) if parent_of(pid) == os.getpid()}


def test_one_that_is_retired_ends_with_its_last_statement(run: Run) -> None:
    snapshot = run.snapshot.path
    before = _holders(run)
    handle = HolderHandle(run.folder, snapshot.parent, False, wire.LAYERS)
    statements = [handle.statement(snapshot, lambda: False) for _ in range(2)]
    [pid] = _holders(run) - before
    handle.retire()
    statements[0].end()
    assert statements[1].begin("FROM steps", None, []).read_all().num_rows == 6
    statements[1].end()
    assert command_of(pid) == ""
    with pytest.raises(OSError, match="was closed"):
        handle.statement(snapshot, lambda: False)

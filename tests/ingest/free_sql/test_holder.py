"""The process that holds a snapshot: the processes that it forks for statements."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.free_sql.connection import memory_bytes
from ingest.run import Run, open_run
from tests.ingest.free_sql.sql_processes import (
    SOON_S,
    holder_of,
    no_descriptor_left,
    num_rows,
    parent_of,
    processes,
)
from tests.runs_builder import two_rank_run


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

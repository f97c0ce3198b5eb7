"""The server's end of a statement's process: one statement after another, and each way to end."""

from __future__ import annotations

import io
import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.free_sql import statement_handle as module
from ingest.free_sql import wire
from ingest.free_sql.holder_handle import HolderHandle
from ingest.free_sql.statement_handle import StatementHandle, _FrameReader
from ingest.run import Run
from ingest.stopping import Stop
from tests.ingest.free_sql.sql_processes import until_gone
from tests.waiting import wait_until


def numbers(statement: StatementHandle, count: int) -> list[int]:
    """Rows of a statement that was read to its end."""
    rows = statement.begin(f"SELECT range AS n FROM range({count})", None, []).read_all()
    statement.finish()
    found: list[int] = rows.column("n").to_pylist()
    return found


def test_a_rested_process_answers_the_next_statement(statement: StatementHandle) -> None:
    assert not statement.may_follow  # none has been answered yet
    for count in (3, 20_000, 2):
        assert numbers(statement, count) == list(range(count))
        assert statement.may_follow
        statement.rest()
        assert statement.is_ready_again()
        assert not statement.may_follow
    assert statement.has_rested


def test_one_that_has_rested_for_long_is_not_used_again(
    statement: StatementHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers(statement, 1)
    statement.rest()
    monkeypatch.setattr(module, "_REST_S", 0.0)
    assert not statement.is_ready_again()


def test_one_that_was_killed_while_it_rested_is_not_used_again(
    statement: StatementHandle,
) -> None:
    numbers(statement, 1)
    statement.rest()
    os.kill(statement._pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{statement._pid}").exists())  # its sockets are closed
    assert not statement.is_ready_again()


def test_one_whose_holder_was_closed_is_not_used_again(opened_run: Run) -> None:
    snapshot = opened_run.snapshot.path
    holder = HolderHandle(opened_run.folder, snapshot.parent, False, wire.LAYERS)
    statement = holder.statement(snapshot, lambda: False)
    numbers(statement, 1)
    statement.rest()
    holder.close()
    assert not statement.is_ready_again()
    statement.end()


def test_a_stop_ends_the_process_while_it_computes(statement: StatementHandle) -> None:
    stop = Stop()
    text = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
    threading.Timer(0.2, stop).start()
    with pytest.raises(wire.Ended):
        statement.begin(text, None, [stop]).read_all()
    until_gone([statement._pid])
    assert not statement.may_follow


def test_the_end_of_one_whose_rows_are_not_read_ends_its_process(
    statement: StatementHandle,
) -> None:
    statement.begin("SELECT range FROM range(1000000000)", None, []).read_next_batch()
    statement.end()
    until_gone([statement._pid])


def frames(*parts: tuple[bytes, bytes]) -> _FrameReader:
    """What a process sent."""
    read_end, write_end = os.pipe()
    for kind, content in parts:
        wire.write_frame(write_end, kind, content)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        return _FrameReader(io.BytesIO(file.read()).read)


def test_frames_are_read_as_one_file() -> None:
    reader = frames((wire.DATA, b"abc"), (wire.DATA, b"defgh"), (wire.END, wire.REUSABLE))
    pieces = list(iter(partial(reader.read, 2), b""))
    assert pieces == [b"ab", b"c", b"de", b"fg", b"h"]
    assert reader.end == wire.REUSABLE


def test_an_error_behind_the_rows_is_raised_at_their_end() -> None:
    reader = frames((wire.DATA, b"abc"), (wire.ERROR, b"SQL: too much"))
    assert reader.read(3) == b"abc"
    with pytest.raises(UserError, match="SQL: too much"):
        reader.finish()


def test_rows_without_an_end_are_an_ended_process() -> None:
    reader = frames((wire.DATA, b"abc"))
    assert reader.read(3) == b"abc"
    with pytest.raises(wire.Ended):
        reader.finish()

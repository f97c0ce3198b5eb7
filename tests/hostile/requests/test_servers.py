"""A hostile server meets a real agent: training's log stays small and cannot be forged."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.trace_hooks.agent.test_connection import WELCOME, listening, running
from tests.waiting import wait_until
from trace_hooks.agent import connection as agent_module
from trace_hooks.recording import guard
from trace_hooks.recording.commands import Live

FORGED = "full\nINFO trainer: loss 0.0\x1b[2J\u202e"
LONGEST_LINE = 600
MOST_LINES = 12
"""Over all messages of a server in the seconds of a test."""


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(agent_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(agent_module, "LONGEST_PAUSE_S", 0.02)
    guard.account.reset()
    yield
    guard.account.reset()


class Saying:
    """A server that does the same on every connection."""

    def __init__(self, does: Callable[[ServerConnection, int], None]) -> None:
        self.num_lines = 0
        self._does = does

    def __call__(self, line: ServerConnection) -> None:
        self.num_lines += 1
        with suppress(ConnectionClosed):
            self._does(line, self.num_lines)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def served_badly(does: Callable[[ServerConnection, int], None], num_lines: int = 30) -> None:
    """An agent that a server treats so, on as many connections."""
    saying = Saying(does)
    with serve(saying, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with running(server.socket.getsockname()[1]):
                wait_until(lambda: saying.num_lines >= num_lines)
        finally:
            server.shutdown()
            thread.join()


def require_harmless(lines: list[str]) -> None:
    assert lines
    assert len(lines) <= MOST_LINES, lines
    assert all(len(line) <= LONGEST_LINE for line in lines)
    assert all(line.isprintable() for line in lines), lines


def test_a_close_reason_forges_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def close(line: ServerConnection, number: int) -> None:
        line.close(4400, f"{number} {FORGED}")

    served_badly(close)
    require_harmless(logged(caplog))
    assert r"\nINFO trainer: loss 0.0\x1b[2J\u202e" in "".join(logged(caplog))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "message",
    [
        {"type": "not_stored", "name": "x", "text": FORGED + "x" * 500_000},
        {"type": "not_stored", "name": "x"},
        {"type": "welcome", "messages_per_s": FORGED + "x" * 500_000},
        {"type": "welcome", "messages_per_s": 0, "bytes_per_s": -1, "message_bytes": "x"},
        {"type": ["welcome"]},
        {},
        {"type": "stored", "name": [FORGED * 1_000]},
        {"type": "command", "id": FORGED, "name": FORGED * 1_000, "args": FORGED},
        {"type": "command", "id": "c", "name": "fails", "args": FORGED + "x" * 500_000},
    ],
    ids=lambda message: str(message.get("type"))[:12] if isinstance(message, dict) else None,
)
def test_a_message_of_any_kind_forges_and_fills_nothing(
    message: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    live = Live()
    live.commands.register("fails", lambda value: {}[value])  # type: ignore[no-any-return]
    with listening(welcome=message) as server, running(server.port, None, live):
        server.next("hello")
        line = server.lines.get()
        for number in range(40):
            text = message.get("text")
            varied = message | ({"text": f"{number} {text}"} if isinstance(text, str) else {})
            try:
                line.send(json.dumps(varied)[: 1 << 20])
            except ConnectionClosed:
                break
        time.sleep(0.3)
    lines = logged(caplog)
    assert len(lines) <= MOST_LINES, lines
    assert all(len(line) <= LONGEST_LINE for line in lines)
    assert all(line.isprintable() for line in lines), lines
    assert all(len(text) <= LONGEST_LINE and text.isprintable() for _, text in guard.account.news)


def test_what_is_no_message_at_all_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def babble(line: ServerConnection, number: int) -> None:
        line.send("[" * 100_000 if number % 2 else b"\0" * 10_000)
        line.recv()
        line.recv()

    served_badly(babble)
    require_harmless(logged(caplog))
    assert guard.account.errors == {}  # a server's fault is no hook's


def test_a_flood_of_messages_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Each message that is read holds the interpreter's lock, which training needs."""

    def flood(line: ServerConnection, _number: int) -> None:
        command = json.dumps({"type": "command", "id": "c", "name": "x", "args": "x" * 300_000})
        line.send(json.dumps(WELCOME))
        while True:
            line.send(command)

    served_badly(flood, num_lines=3)
    require_harmless(logged(caplog))


def test_the_library_below_logs_nothing_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    def close(line: ServerConnection, _number: int) -> None:
        line.send(json.dumps({"type": "not-known", "x": FORGED}))
        line.close(4400, FORGED)

    caplog.set_level(logging.DEBUG)
    served_badly(close, num_lines=3)
    from_client = [one for one in caplog.records if "client" in one.name]
    assert from_client == []

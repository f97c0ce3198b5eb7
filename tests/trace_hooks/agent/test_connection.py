"""The agent against real sockets: what it sends, that it comes back, that nothing waits for it."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.frame_runs import small_frame
from tests.waiting import wait_until
from trace_hooks.agent import connection as agent_module
from trace_hooks.agent.connection import Agent
from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.process_info import Place
from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.frames import decode
from trace_hooks.protocol.server_address import Address
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState

WAIT_S = 60.0
WELCOME = {"type": "welcome", "messages_per_s": 1e6, "bytes_per_s": 1e9, "message_bytes": 1 << 20}
IDENTITY = Identity(Shared("night", 2, 0, "d", 0, 0), Place(3, 8, 3, sure=True), Path("runs"))


class Listening:
    """A server that welcomes, keeps what it receives, and sends what a test wants."""

    def __init__(self, port: int = 0, welcome: dict[str, Any] | None = None) -> None:
        self.received: queue.Queue[dict[str, Any] | bytes] = queue.Queue()
        self.lines: queue.Queue[ServerConnection] = queue.Queue()
        self.tokens: list[str | None] = []
        self._welcome = WELCOME if welcome is None else welcome
        self._server: Server = serve(self._answer, "127.0.0.1", port)
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _answer(self, line: ServerConnection) -> None:
        assert line.request is not None
        self.tokens.append(line.request.headers.get("Authorization"))
        self.lines.put(line)
        line.send(json.dumps(self._welcome))
        with suppress(ConnectionClosed):
            for message in line:
                found = json.loads(message) if isinstance(message, str) else message
                self.received.put(found)
                if isinstance(found, dict) and found["type"] == "bye":
                    return  # as the real server, it closes the connection

    def next(self, kind: str) -> dict[str, Any]:
        until_s = time.monotonic() + WAIT_S
        while True:
            found = self.received.get(timeout=max(0.0, until_s - time.monotonic()))
            if isinstance(found, dict) and found["type"] == kind:
                return found

    def next_frame(self) -> bytes:
        while True:
            found = self.received.get(timeout=WAIT_S)
            if isinstance(found, bytes):
                return found

    def close(self) -> None:
        self._server.shutdown()
        while not self.lines.empty():
            self.lines.get().close()
        self._thread.join()


@contextmanager
def listening(**given: Any) -> Iterator[Listening]:
    server = Listening(**given)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def running(port: int, state: RankState | None = None, live: Live | None = None) -> Iterator[Agent]:
    address = Address(f"ws://127.0.0.1:{port}", "secret-secret")
    found = Agent(address, state or RankState(), live or Live())
    found.place(IDENTITY)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_it_identifies_itself_and_sends_heartbeats() -> None:
    state, live = RankState(), Live()
    state.layout = ParallelLayout((("dp", 8),))
    live.about["allow_content"] = lambda: state.step > 4
    live.beats["watches"] = lambda: [{"id": "w1"}]
    with listening() as server, running(server.port, state, live):
        hello = server.next("hello")
        identity = {name: hello[name] for name in ("run", "attempt", "rank", "world_size")}
        assert identity == {"run": "night", "attempt": 2, "rank": 3, "world_size": 8}
        assert hello["layout"]["axes"]
        assert hello["allow_content"] is False
        state.step, state.phase = 7, "training"
        while (beat := server.next("heartbeat"))["step"] != 7:
            pass
        assert (beat["phase"], beat["watches"]) == ("training", [{"id": "w1"}])
    assert server.tokens == ["Bearer secret-secret"]


def test_what_changes_is_sent_again() -> None:
    state, live = RankState(), Live()
    with listening() as server, running(server.port, state, live):
        assert server.next("hello")["layout"] is None
        state.layout = ParallelLayout((("dp", 8),))
        assert server.next("hello")["layout"] is not None


def test_frames_arrive_as_they_were_offered() -> None:
    with listening() as server, running(server.port) as agent:
        sent = [small_frame(step, head=step, num_bytes=64) for step in range(20)]
        for one in sent:
            agent.offer(one)
        arrived = [decode(server.next_frame()) for _ in sent]
        assert [(one.step, one.data) for one in arrived] == [(one.step, one.data) for one in sent]


def test_commands_are_answered() -> None:
    state, live = RankState(), Live()
    live.commands.register("watch", lambda value: f"{len(value)} watches")
    with listening() as server, running(server.port, state, live):
        line = server.lines.get(timeout=WAIT_S)
        line.send(json.dumps({"type": "watch", "id": "c1", "watches": []}))
        line.send(json.dumps({"type": "command", "id": "c2", "name": "nope"}))
        assert server.next("ack") == {"type": "ack", "id": "c1", "ok": True, "text": "0 watches"}
        refused = server.next("ack")
        assert (refused["id"], refused["ok"]) == ("c2", False)


def test_it_keeps_to_the_rate_of_the_server_and_counts_what_it_leaves_out() -> None:
    welcome = WELCOME | {"messages_per_s": 5, "message_bytes": 2_000}
    with listening(welcome=welcome) as server, running(server.port) as agent:
        agent.offer(small_frame(num_bytes=4_000))
        wait_until(lambda: agent.thinned == 1)
        for step in range(400):
            agent.offer(small_frame(step))
            time.sleep(0.001)
        wait_until(lambda: agent.thinned + agent.sent == 401)
        assert agent.thinned > 200
        arrived = [decode(server.next_frame()).step for _ in range(agent.sent)]
        assert arrived == sorted(arrived)
        assert arrived[-1] == 399  # the newest always comes


@pytest.fixture
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(agent_module, "LONGEST_PAUSE_S", 0.2)


@pytest.mark.usefixtures("soon_again")
def test_it_comes_back_when_the_server_does() -> None:
    with listening() as server, running(server.port) as agent:
        server.next("hello")
        server.close()
        wait_until(lambda: agent._connection is None)
        for step in range(3):
            agent.offer(small_frame(step))
        with listening(port=server.port) as again:
            assert again.next("hello")["rank"] == 3
            assert decode(again.next_frame()).step == 2
            assert agent.thinned == 2


@pytest.mark.usefixtures("soon_again")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b'HTTP/1.1 403 F\r\nContent-Length: 25\r\n\r\n{"error": "not from here"}',
        b"HTTP/1.1 302 F\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["nothing", "zeros", "a page", "a refusal", "a redirection"],
)
def test_an_address_without_a_server_is_tried_again(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, running(other.getsockname()[1]):
        other.settimeout(WAIT_S)
        for _ in range(2):
            line, _ = other.accept()
            line.recv(1 << 16)
            line.sendall(answer)
            line.close()
    warnings = [
        record.message for record in caplog.records if "cannot be reached" in record.message
    ]
    assert len(warnings) == 1  # once, not at each try


def test_it_ends_in_time_whatever_the_server_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, never answers
        before = set(threading.enumerate())
        with running(silent.getsockname()[1]) as agent:
            line, _ = silent.accept()
            stopping = threading.Thread(target=agent.stop)
            stopping.start()
            stopping.join(20.0)
            assert not stopping.is_alive()
        line.close()
    wait_until(lambda: not (set(threading.enumerate()) - before))


def test_it_says_goodbye_and_sends_what_waits() -> None:
    with listening() as server:
        with running(server.port) as agent:
            wait_until(lambda: agent._rates is not None)  # it was welcomed
            agent.offer(small_frame(5))
            agent.stop("failed")
        assert decode(server.next_frame()).step == 5
        assert server.next("bye")["status"] == "failed"


@contextmanager
def shipping(port: int, folder: Path) -> Iterator[Agent]:
    """An agent that sends the files of its run in `folder`."""
    agent = Agent(
        Address(f"ws://127.0.0.1:{port}", "secret-secret"), RankState(), Live(), ships=True
    )
    agent.place(replace(IDENTITY, folder=folder))
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


@pytest.mark.parametrize("is_written", [True, False])
def test_what_a_rank_still_writes_is_not_called_complete(tmp_path: Path, is_written: bool) -> None:
    with listening() as server, shipping(server.port, tmp_path) as agent:
        wait_until(lambda: agent._rates is not None)
        agent.stop("finished", lambda: is_written)
        assert server.next("bye")["complete"] is is_written


def test_it_waits_until_the_server_has_its_bye(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STOP_S", "CLOSED_S"):
        monkeypatch.setattr(agent_module, name, WAIT_S)
    with listening() as server:
        with running(server.port):
            server.next("heartbeat")
        line = server.lines.get(timeout=WAIT_S)
        wait_until(lambda: line.protocol.close_code == 1000)
        assert not line.protocol.close_rcvd_then_sent  # the server closed it


@pytest.mark.usefixtures("soon_again")
def test_it_does_not_come_back_after_its_good_bye(tmp_path: Path) -> None:
    """The drain thread of a slow disk writes its last file later; it goes with the next start."""
    path = tmp_path / "segments" / "steps-0002-00003-00000000.parquet"
    path.parent.mkdir()
    with listening() as server, shipping(server.port, tmp_path) as agent:
        wait_until(lambda: agent._rates is not None)
        sent = agent._send

        def write_after_bye(connection: Any, message: dict[str, Any]) -> None:
            sent(connection, message)
            if message["type"] == "bye":
                path.write_bytes(b"rows")

        agent._send = write_after_bye  # type: ignore[method-assign]
        agent.stop()
        assert server.next("bye")["type"] == "bye"
        assert not agent._thread.is_alive()
    assert len(server.tokens) == 1  # connections
    assert path.exists()


def test_a_forked_child_does_not_hold_the_connection() -> None:
    with listening() as server, running(server.port) as agent:
        server.next("heartbeat")
        connection = agent._connection
        assert connection is not None
        child = os.fork()
        if child == 0:
            agent.abandon()
            os._exit(0 if connection.socket.fileno() == -1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        agent.offer(small_frame(1))
        assert decode(server.next_frame()).step == 1  # the parent's goes on

"""The socket of a host: its ranks are as apart on it as on sockets of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection
from websockets.typing import Subprotocol

from app.live.claims import Claims
from app.live.connected_rank import Hello
from app.routes.live import closing, hosts
from app.settings import Settings
from app.web.connections import CONNECTION
from tests.app.server.ranks import BEARER, JOB_TOKEN, hello, post, ranks, refusal, state
from tests.app.server.served import WAIT_S, Served, served
from tests.frame_runs import small_frame
from tests.waiting import wait_until
from trace_hooks.agent.opening import Opening
from trace_hooks.protocol.frames import decode as decode_frame
from trace_hooks.protocol.multiplexing import SUBPROTOCOL, Kind, Packet, decode
from trace_hooks.protocol.server_address import Address
from trace_hooks.protocol.token_bucket import Rate
from trace_hooks.watchdog.relay import Relay

BEAT = '{"type": "heartbeat", "step": 1, "sent": 0, "thinned": 0}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    with served(tmp_path_factory.mktemp("runs"), settings) as running_one:
        yield running_one


@pytest.fixture
def meeting(server: Served, tmp_path: Path) -> Path:
    """A folder in which a relay listens for the ranks of a host."""
    Relay(tmp_path, Address(f"ws://{server.address}", JOB_TOKEN)).start()
    return tmp_path


class Host:
    """A bare socket of a host."""

    def __init__(self, opened: ClientConnection) -> None:
        self.opened = opened

    def send(self, channel: int, *messages: str | bytes) -> None:
        for message in messages:
            self.opened.send(Packet.of(channel, message).encode())

    def open(self, channel: int, first: str) -> None:
        self.opened.send(Packet(channel, Kind.OPEN).encode())
        self.send(channel, first)

    def next(self) -> Packet:
        return decode(self.opened.recv(WAIT_S))

    def welcomed(self, channel: int, first: str) -> None:
        self.open(channel, first)
        packet = self.next()
        assert (packet.channel, json.loads(packet.content)["type"]) == (channel, "welcome")

    def refused(self, channel: int) -> int:
        """Close code of the channel, which is the next that the server closes."""
        while (packet := self.next()).kind is not Kind.CLOSE:
            pass
        assert packet.channel == channel
        return packet.code_and_reason[0]


@contextmanager
def host(server: Served, token: str = JOB_TOKEN) -> Iterator[Host]:
    named = BEARER | {"Authorization": f"Bearer {token}"}
    protocols = [Subprotocol(SUBPROTOCOL)]
    with server.socket(
        "/agent", compression=None, additional_headers=named, subprotocols=protocols
    ) as opened:
        yield Host(opened)


def num_sockets(server: Served) -> int:
    """WebSockets of hosts and ranks that are open at the server."""
    lines = server.ask("/metrics")[1].decode().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith("rankscope_rank_sockets "))
    return int(value)


def test_ranks_of_a_host_are_asked_and_answer_on_one_socket(server: Served, meeting: Path) -> None:
    wait_until(lambda: num_sockets(server) == 0)
    with ranks(server, "shared", 4, meeting=meeting) as job_ranks:
        assert num_sockets(server) == 1
        for number, one in enumerate(job_ranks):
            one.live.commands.register("add", lambda value, number=number: f"{value + number}")
        message = {"name": "add", "args": 10, "ranks": [1, 3]}
        _, answer = post(server, "shared", message, "/api/command")
        assert [(ack["rank"], ack["text"]) for ack in answer["acks"]] == [(1, "11"), (3, "13")]
        _, answer = post(server, "shared", {"watches": [{"id": "w1", "what": "mlp"}]})
        assert [ack["rank"] for ack in answer["acks"]] == [0, 1, 2, 3]
        with server.socket("/live/frames?run=shared", max_size=None) as browser:
            job_ranks[2].agent.offer(small_frame(5, num_bytes=1 << 20))
            while not isinstance(content := browser.recv(WAIT_S), bytes):
                pass
        frame = decode_frame(content)
        assert (frame.rank, frame.step, len(frame.data)) == (2, 5, 1 << 20)
        job_ranks[0].agent.stop()
        wait_until(lambda: state(server, "shared")["ended"] == 1)
        assert state(server, "shared")["connected"] == 3


def test_the_server_closes_the_channel_of_one_rank_and_not_the_others(server: Served) -> None:
    with host(server) as one:
        one.welcomed(5, hello("apart"))
        one.welcomed(6, hello("apart", rank=1))
        one.send(5, '{"type": "eval"}')
        assert one.refused(5) == closing.MALFORMED
        wait_until(lambda: state(server, "apart")["gone"] == 1)
        _, answer = post(server, "apart", {"name": "add", "ranks": [0]}, "/api/command")
        assert "is connected" in answer["error"]
        assert state(server, "apart")["connected"] == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (hello("own", rank=1), closing.MALFORMED),
        (hello("other"), closing.MALFORMED),
        (small_frame().encode()[:-1], closing.MALFORMED),
    ],
)
def test_a_channel_speaks_for_one_rank_of_one_run(
    server: Served, message: str | bytes, code: int
) -> None:
    with host(server) as one:
        one.welcomed(0, hello("own"))
        one.send(0, message)
        assert one.refused(0) == code


def test_each_channel_needs_the_secret_of_its_run(server: Served) -> None:
    with host(server) as one:
        one.welcomed(0, hello("secret"))
        one.open(1, hello("secret", rank=1, secret="another-secret-than-the-ranks-of-it"))
        assert one.refused(1) == closing.NOT_YOURS
        one.open(2, '{"type": "heartbeat"}')
        assert one.refused(2) == closing.MALFORMED
        assert state(server, "secret")["connected"] == 1


def test_ranks_whose_host_is_gone_are_gone(server: Served) -> None:
    with host(server) as one:
        one.welcomed(0, hello("lost"))
        one.welcomed(1, hello("lost", rank=1))
        one.send(0, '{"type": "bye", "complete": true}')
        one.opened.socket.shutdown(2)
    wait_until(lambda: state(server, "lost")["gone"] == 1)
    assert state(server, "lost")["ended"] == 1  # its last message was processed


def test_a_rank_whose_disk_is_slow_holds_up_no_other_and_is_closed_when_too_much_waits(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, may_go_on = Claims.check, threading.Event()

    def check_slowly(claims: Claims, hello: Hello) -> None:
        assert hello.rank != 0 or may_go_on.wait(WAIT_S)
        check(claims, hello)

    monkeypatch.setattr(Claims, "check", check_slowly)
    monkeypatch.setattr(hosts, "MOST_WAITING_BYTES", 50_000)
    with host(server) as one:
        one.open(0, hello("slow"))
        one.send(0, BEAT + " " * 50_000)  # as much as may wait
        one.send(0, *[small_frame().encode()] * 3)  # left out
        one.welcomed(1, hello("slow", rank=1))
        one.send(0, BEAT)
        assert one.refused(0) == closing.FAILED
        one.welcomed(2, hello("slow", rank=2))
        may_go_on.set()
        wait_until(lambda: state(server, "slow").get("gone") == 1)  # rank 0, once all was processed
        assert state(server, "slow")["connected"] == 2


def test_ranks_with_a_wrong_token_learn_so_through_their_relay(
    server: Served, tmp_path: Path
) -> None:
    address = Address(f"ws://{server.address}", "wrong-wrong")
    Relay(tmp_path, address).start()
    for _ in range(5):
        found = Opening(address, tmp_path, threading.Event())
        with found.open() as line:
            assert line.socket.family == socket.AF_UNIX
            assert refusal(line)[0] == closing.UNKNOWN_TOKEN


def test_a_host_without_the_job_token_is_refused(server: Served) -> None:
    with host(server, "wrong-wrong") as one:
        assert refusal(one.opened)[0] == closing.UNKNOWN_TOKEN


@pytest.mark.parametrize("content", ["text", b"", b"\0\0\0\0\x09"])
def test_a_host_that_sends_no_packets_is_disconnected(server: Served, content: str | bytes) -> None:
    with host(server) as one:
        one.welcomed(0, hello("packets"))
        one.opened.send(content)
        assert refusal(one.opened)[0] == closing.MALFORMED
    wait_until(lambda: state(server, "packets")["connected"] == 0)


def test_channels_are_bounded(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_CHANNELS", 1)
    with host(server) as one:
        one.welcomed(0, hello("bounded"))
        one.open(1, hello("bounded", rank=1))
        assert one.refused(1) == closing.CROWDED
        one.opened.send(Packet.closing(0, 1001).encode())
        wait_until(lambda: state(server, "bounded")["gone"] == 1)
        one.welcomed(2, hello("bounded"))  # there is room again


@contextmanager
def slow_claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The disk on which claims are checked does not answer while the block runs."""
    check, may_go_on = Claims.check, threading.Event()

    def check_slowly(claims: Claims, hello: Hello) -> None:
        assert may_go_on.wait(WAIT_S)
        check(claims, hello)

    monkeypatch.setattr(Claims, "check", check_slowly)
    try:
        yield
    finally:
        may_go_on.set()


def test_channels_whose_messages_still_wait_for_the_disk_count(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "MOST_CHANNELS", 2)
    monkeypatch.setattr(hosts, "MOST_WAITING_BYTES", 50_000)
    with host(server) as one, slow_claims(monkeypatch):
        for number in range(2):
            one.open(number, hello("waiting", rank=number))
            one.send(number, BEAT + " " * 50_000, BEAT + " " * 50_000, BEAT)
            assert one.refused(number) == closing.FAILED
        one.open(2, hello("waiting", rank=2))
        assert one.refused(2) == closing.CROWDED


def test_a_channel_ends_once(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after its end would wait without bound where its disk is slow."""
    too_many = threading.Event()

    class Observed(Rate):
        def take(self, units: float = 1.0) -> bool:
            taken = super().take(units)
            if not taken:
                too_many.set()
            return taken

    monkeypatch.setattr(hosts, "Rate", Observed)
    monkeypatch.setattr(hosts, "_MOST_STRAY", 10.0)
    monkeypatch.setattr(hosts, "_STRAY_PER_S", 0.001)
    with host(server) as one:
        with slow_claims(monkeypatch):
            one.open(0, hello("ended"))
            for _ in range(20):
                one.opened.send(Packet.closing(0, 1001).encode())
            assert too_many.wait(WAIT_S)
        assert refusal(one.opened)[0] == closing.FLOOD


def test_messages_for_closed_channels_are_bounded(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_MOST_STRAY", 10.0)
    monkeypatch.setattr(hosts, "_STRAY_PER_S", 0.001)
    with host(server) as one:
        one.send(9, *["x"] * 20)
        assert refusal(one.opened)[0] == closing.FLOOD


class DeafHost:
    """The WebSocket, and the connection, of a host that opens one channel and reads nothing."""

    def __init__(self) -> None:
        self.scope = {"state": {CONNECTION: self}}
        self.dropped = asyncio.Event()
        self._messages = [Packet(0, Kind.OPEN).encode()]

    async def receive(self) -> dict[str, Any]:
        if not self._messages:
            await self.dropped.wait()
            return {"type": "websocket.disconnect", "code": 1006}
        return {"type": "websocket.receive", "bytes": self._messages.pop()}

    async def send_bytes(self, _content: bytes) -> None:
        await asyncio.Event().wait()

    def drop(self) -> None:
        self.dropped.set()


def test_a_host_that_does_not_take_the_end_of_a_channel_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would take the channel for open, and its rank would never connect again."""
    monkeypatch.setattr(closing, "SEND_S", 0.05)

    async def refuse(channel: Any) -> None:
        await closing.close(channel, closing.Refused(closing.FLOOD, "too much"))

    async def serve() -> None:
        host: Any = DeafHost()
        async with asyncio.timeout(WAIT_S):
            await hosts.HostSocket(host, refuse).serve()

    monkeypatch.setattr(hosts, "SILENT_S", 1.0)
    asyncio.run(serve())

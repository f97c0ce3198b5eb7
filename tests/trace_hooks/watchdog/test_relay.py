"""The relay of a host against real sockets: what a rank gets when it, or the server, is away."""

from __future__ import annotations

import queue
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, unix_connect
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from tests.folders import REPO
from tests.waiting import WAIT_S, wait_until
from trace_hooks.agent import opening
from trace_hooks.agent.opening import Opening
from trace_hooks.protocol.multiplexing import SUBPROTOCOL, Kind, Packet, decode
from trace_hooks.protocol.server_address import Address
from trace_hooks.watchdog import relay as relay_module
from trace_hooks.watchdog import relay_socket
from trace_hooks.watchdog.relay import Relay

TLS = REPO / "tests/app/commands/tls"


class HostServer:
    """A server that keeps the packets it receives; `shares`: it takes sockets of hosts.

    It reads nothing until `reads` is set.
    """

    def __init__(
        self, port: int, shares: bool, context: ssl.SSLContext | None, reads: bool
    ) -> None:
        self.lines: queue.Queue[ServerConnection] = queue.Queue()
        self.packets: queue.Queue[Packet] = queue.Queue()

        def select(_line: object, offered: Sequence[Subprotocol]) -> Subprotocol | None:
            return Subprotocol(SUBPROTOCOL) if shares and SUBPROTOCOL in offered else None

        self.reads = threading.Event()
        if reads:
            self.reads.set()
        self._server: Server = serve(
            self._answer,
            "127.0.0.1",
            port,
            ssl=context,
            select_subprotocol=select,
            max_queue=1,
            max_size=None,
        )
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _answer(self, line: ServerConnection) -> None:
        self.lines.put(line)
        self.reads.wait()
        with suppress(ConnectionClosed):
            for message in line:
                if line.subprotocol is not None:
                    self.packets.put(decode(message))

    def close(self) -> None:
        self.reads.set()
        self._server.shutdown()
        while not self.lines.empty():
            self.lines.get().close()
        self._thread.join()


@contextmanager
def serving(
    port: int = 0,
    shares: bool = True,
    context: ssl.SSLContext | None = None,
    reads: bool = True,
) -> Iterator[HostServer]:
    server = HostServer(port, shares, context, reads)
    try:
        yield server
    finally:
        server.close()


def test_the_relay_connects_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with serving(context=context) as server:
        address = Address(f"wss://127.0.0.1:{server.port}", "secret-secret")
        Relay(tmp_path, address).start()
        with through(tmp_path, address) as one:
            one.send("in secret")
            assert server.packets.get(timeout=WAIT_S).kind is Kind.OPEN
            assert server.packets.get(timeout=WAIT_S).message == "in secret"


def address_of(port: int) -> Address:
    return Address(f"ws://127.0.0.1:{port}", "secret-secret")


@contextmanager
def through(meeting: Path, address: Address) -> Iterator[ClientConnection]:
    """A rank's connection to the relay; raises InvalidStatus where that lets it not in."""
    opened = wait_until(lambda: reached(meeting, address))
    with unix_connect(None, "ws://relay/agent", sock=opened, compression=None) as line:
        yield line


def reached(meeting: Path, address: Address) -> socket.socket | None:
    with suppress(OSError):
        return relay_socket.connected(meeting, address, WAIT_S)
    return None


def test_ranks_share_a_connection_and_messages_find_their_way(tmp_path: Path) -> None:
    with serving() as server:
        address = address_of(server.port)
        Relay(tmp_path, address).start()
        with through(tmp_path, address) as one, through(tmp_path, address) as other:
            one.send("from one")
            other.send(b"from other")
            found = [server.packets.get(timeout=WAIT_S) for _ in range(4)]
            number = {p.content: p.channel for p in found if p.kind is not Kind.OPEN}
            assert sorted(number) == [b"from one", b"from other"]
            line = server.lines.get(timeout=WAIT_S)
            line.send(Packet.of(99, "to nobody").encode())
            line.send(Packet.of(number[b"from other"], "to other").encode())
            line.send(Packet.closing(number[b"from one"], 4409, "twice").encode())
            assert other.recv(WAIT_S) == "to other"
            with pytest.raises(ConnectionClosed):
                one.recv(WAIT_S)
            assert (one.protocol.close_code, one.protocol.close_reason) == (4409, "twice")
        assert server.lines.empty()  # there was one connection


def test_ranks_learn_why_the_server_closed_the_connection_and_that_it_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "AGAIN_S", 0.0)
    with serving() as server:
        address = address_of(server.port)
        Relay(tmp_path, address).start()
        with through(tmp_path, address) as one:
            server.packets.get(timeout=WAIT_S)
            server.lines.get(timeout=WAIT_S).close(4503, "going away")
            server.close()
            with pytest.raises(ConnectionClosed):
                one.recv(WAIT_S)
            assert (one.protocol.close_code, one.protocol.close_reason) == (4503, "going away")
        refuse(tmp_path, address)
        with serving(server.port) as again, through(tmp_path, address) as one:
            one.send("back")
            assert again.packets.get(timeout=WAIT_S).kind is Kind.OPEN
            assert again.packets.get(timeout=WAIT_S).message == "back"


RELAY = """
import os, sys
from pathlib import Path
from trace_hooks.protocol.server_address import Address
from trace_hooks.watchdog.relay import Relay
relay = Relay(Path(sys.argv[1]), Address(sys.argv[2], "secret-secret"))
relay.start()
sys.stdin.read()
print("stopping", flush=True)
relay.stop()
os._exit(0)
"""


def test_a_relay_that_stops_has_sent_the_last_words_of_its_ranks(tmp_path: Path) -> None:
    with serving(reads=False) as server:
        address = address_of(server.port)
        process = subprocess.Popen(
            [sys.executable, "-c", RELAY, str(tmp_path), address.server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process, through(tmp_path, address) as one:
            one.send(b"x" * (8 << 20))  # more than the kernel keeps for the server
            one.close()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            assert process.stdout.readline() == "stopping\n"
            server.reads.set()
            packets = [server.packets.get(timeout=WAIT_S) for _ in range(3)]
        assert process.returncode == 0
        assert [len(packet.content) for packet in packets[:2]] == [0, 8 << 20]
        assert packets[2].kind is Kind.CLOSE


def test_ranks_that_ask_soon_after_a_failure_get_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "AGAIN_S", 3_600.0)
    with serving() as server:
        address = address_of(server.port)
    Relay(tmp_path, address).start()
    refuse(tmp_path, address)
    with serving(server.port) as again:
        refuse(tmp_path, address)
        assert again.lines.empty()


def refuse(meeting: Path, address: Address) -> None:
    with pytest.raises(InvalidStatus) as refused, through(meeting, address):
        pass
    assert refused.value.response.status_code == relay_socket.NOT_REACHED
    assert b"refused" in (refused.value.response.body or b"")


@pytest.mark.parametrize("status", [403, 521])
def test_ranks_learn_what_stands_before_the_server_says(tmp_path: Path, status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = address_of(other.getsockname()[1])
        Relay(tmp_path, address).start()

        def answer() -> None:
            line, _ = other.accept()
            line.recv(1 << 16)
            line.sendall(b"HTTP/1.1 %d It\r\nContent-Length: 8\r\n\r\nnot here" % status)
            line.close()

        threading.Thread(target=answer).start()
        with pytest.raises(InvalidStatus) as refused, through(tmp_path, address):
            pass
        found = refused.value.response
        assert (found.status_code, bytes(found.body or b"")) == (status, b"not here")


def test_ranks_beyond_what_a_connection_takes_connect_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_CHANNELS", 1)
    with serving() as server:
        address = address_of(server.port)
        Relay(tmp_path, address).start()
        with through(tmp_path, address):
            server.packets.get(timeout=WAIT_S)
            with opened(tmp_path, server.port) as line:
                assert line.socket.family == socket.AF_INET


def opened(meeting: Path, port: int) -> ClientConnection:
    return Opening(address_of(port), meeting, threading.Event()).open()


def test_a_rank_connects_by_itself_to_a_server_that_takes_no_hosts(tmp_path: Path) -> None:
    with serving(shares=False) as server:
        Relay(tmp_path, address_of(server.port)).start()
        wait_until(lambda: list(tmp_path.glob("relay-*.sock")))
        with opened(tmp_path, server.port) as line:
            assert line.socket.family == socket.AF_INET


def test_a_rank_waits_for_a_relay_that_begins_to_listen(tmp_path: Path) -> None:
    with serving() as server:
        relay = Relay(tmp_path, address_of(server.port))
        threading.Timer(0.2, relay.start).start()
        with opened(tmp_path, server.port) as line:
            assert line.socket.family == socket.AF_UNIX


def test_a_rank_connects_by_itself_where_no_relay_comes_or_it_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "START_S", 0.1)
    with serving() as server:
        with opened(tmp_path, server.port) as line:
            assert line.socket.family == socket.AF_INET
        relay_socket.listening(tmp_path, address_of(server.port)).close()  # its file stays
        with opened(tmp_path, server.port) as line:
            assert line.socket.family == socket.AF_INET


def test_a_rank_connects_by_itself_where_the_relay_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "OPEN_S", 0.5)
    with serving() as server, relay_socket.listening(tmp_path, address_of(server.port)) as hung:
        hung.listen()
        with opened(tmp_path, server.port) as line:
            assert line.socket.family == socket.AF_INET


def test_a_rank_that_ends_waits_for_no_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "START_S", 3_600.0)
    stopping = threading.Event()
    stopping.set()
    with serving() as server, Opening(address_of(server.port), tmp_path, stopping).open() as line:
        assert line.socket.family == socket.AF_INET


def test_a_rank_with_another_token_or_server_does_not_find_the_relay(tmp_path: Path) -> None:
    with relay_socket.listening(tmp_path, address_of(8050)) as listener:
        listener.listen()
        for other in (Address("ws://127.0.0.1:8050", "another-token"), address_of(8051)):
            assert reached(tmp_path, other) is None
        found = reached(tmp_path, address_of(8050))
        assert found is not None
        found.close()


def test_a_deep_folder_holds_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with relay_socket.listening(deep, address_of(8050)) as listener:
        listener.listen()
        found = reached(deep, address_of(8050))
        assert found is not None
        found.close()
    (path,) = deep.iterdir()
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_a_rank_that_reads_nothing_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with serving() as server:
        address = address_of(server.port)
        Relay(tmp_path, address).start()
        deaf = wait_until(lambda: reached(tmp_path, address))
        deaf.sendall(
            b"GET /agent HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        number = server.packets.get(timeout=WAIT_S).channel
        with through(tmp_path, address) as other:
            line = server.lines.get(timeout=WAIT_S)
            others = server.packets.get(timeout=WAIT_S).channel
            while server.packets.empty():  # until the relay drops the deaf one
                line.send(Packet.of(number, "x" * 10_000).encode())
            assert server.packets.get() == Packet.closing(number, None)
            line.send(Packet.of(others, "heard").encode())
            assert other.recv(WAIT_S) == "heard"
        deaf.close()


@pytest.mark.parametrize("by", ["relay", "tcp", "tls"])
def test_a_rank_gives_up_a_side_that_reads_nothing_and_not_one_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(opening, "SEND_MS", 500)
    monkeypatch.setattr(opening, "START_S", 0.0)
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))
    context = None
    if by == "tls":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with serving(context=context, reads=False) as server:
        address = Address(f"{'wss' if context else 'ws'}://127.0.0.1:{server.port}", "secret-one")
        if by == "relay":
            Relay(tmp_path, address).start()
            wait_until(lambda: list(tmp_path.glob("relay-*.sock")))
        with Opening(address, tmp_path, threading.Event()).open() as line:
            greet(server.lines.get(timeout=WAIT_S), in_channel=by == "relay")
            assert line.recv(WAIT_S) == "hello"
            assert line.socket.gettimeout() is None  # websockets before 17 also reads with it
            with pytest.raises(TimeoutError):
                line.recv(1.0)
            line.send("still there")
            with pytest.raises(ConnectionClosed):
                send_on_and_on(line)


def greet(line: ServerConnection, in_channel: bool) -> None:
    line.send(Packet.of(0, "hello").encode() if in_channel else "hello")


def send_on_and_on(line: ClientConnection) -> None:
    while True:
        line.send(b"x" * (1 << 20))


def test_a_server_that_reads_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "SEND_S", 0.2)
    monkeypatch.setattr(relay_module, "WATCH_S", 0.05)
    with serving(reads=False) as server:
        address = address_of(server.port)
        Relay(tmp_path, address).start()
        with through(tmp_path, address) as one, pytest.raises(ConnectionClosed):
            send_on_and_on(one)
        server.reads.set()
        with through(tmp_path, address) as one:
            one.send("heard")
            wait_until(lambda: server.packets.get(timeout=WAIT_S).message == "heard")

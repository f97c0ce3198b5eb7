"""Deadlines of a connection and the answer to what is not HTTP, on a pair of sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.web.bounded_http import UNKNOWN_KEEP_ALIVE_S, BoundedHttp, Config
from app.web.connections import BODY_IDLE_S, CONNECTION, HEAD_S, Connections, Limits

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"


class Line:
    """The client's end of a connection, and what the server knows of it."""

    def __init__(self, client: socket.socket, protocol: BoundedHttp) -> None:
        self.protocol = protocol
        self._client = client

    async def send(self, data: bytes) -> float | None:
        """Send it; how many seconds the server waits for more, None for ever."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._client, data)
        await asyncio.sleep(0.02)
        due_s = self.protocol.connection.deadline_s
        return None if due_s is None else due_s - loop.time()

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._client, 65536)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that reads the whole body; a session is let in for paths that say so."""
    if scope["path"] == "/known":
        scope["state"][CONNECTION].session = "s"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def connected() -> AsyncIterator[Line]:
    connections = Connections(Limits.of(100), lambda _session: True)
    config = Config(answer, connections, lifespan="off", log_config=None, timeout_keep_alive=75)
    config.load()
    server, client = socket.socketpair()
    client.setblocking(False)
    connections.add(server)
    made: list[BoundedHttp] = []

    def protocol() -> BoundedHttp:
        made.append(BoundedHttp(config, ServerState(), {}))
        return made[0]

    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(protocol, server)
    try:
        yield Line(client, made[0])
    finally:
        transport.close()
        client.close()
        await asyncio.sleep(0)


def test_the_head_has_one_deadline_that_more_bytes_do_not_extend() -> None:
    async def trickled() -> None:
        async with connected() as line:
            first = await line.send(HEAD[:3])
            assert first == pytest.approx(HEAD_S, abs=0.5)
            due_s = line.protocol.connection.deadline_s
            await line.send(HEAD[3:9])
            assert line.protocol.connection.deadline_s == due_s
            assert line.protocol.connection.is_idle

    asyncio.run(trickled())


def test_a_body_has_a_deadline_after_each_of_its_chunks_and_an_answer_none() -> None:
    async def sent() -> None:
        async with connected() as line:
            first = await line.send(HEAD + b"123")
            assert first == pytest.approx(BODY_IDLE_S, abs=0.5)
            assert not line.protocol.connection.is_idle
            begun_s = line.protocol.connection.deadline_s
            await line.send(b"456")
            extended_s = line.protocol.connection.deadline_s
            assert begun_s is not None
            assert extended_s is not None
            assert extended_s > begun_s
            assert await line.send(b"789") is None, "the answer is sent, nothing is due"
            assert (await line.receive()).startswith(b"HTTP/1.1 204")
            assert line.protocol.connection.is_idle

    asyncio.run(sent())


@pytest.mark.parametrize(("path", "keep_s"), [(b"/", UNKNOWN_KEEP_ALIVE_S), (b"/known", 75)])
def test_a_connection_stays_open_longer_once_a_request_was_let_in(path: bytes, keep_s: int) -> None:
    async def asked() -> None:
        async with connected() as line:
            await line.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            assert (await line.receive()).startswith(b"HTTP/1.1 204")
            assert line.protocol.timeout_keep_alive == keep_s

    asyncio.run(asked())


def test_what_is_not_http_is_answered_with_a_sentence_and_closed() -> None:
    async def asked() -> tuple[bytes, bytes]:
        async with connected() as line:
            await line.send(b"\x16\x03\x01 hello\r\n\r\n")
            return await line.receive(), await line.receive()

    answered, rest = asyncio.run(asked())
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"Connection: close" in head
    assert "not a valid HTTP/1.1 request" in json.loads(body)["error"]
    assert rest == b""


def test_a_closed_connection_is_no_longer_counted() -> None:
    async def closed() -> None:
        async with connected() as line:
            connections = line.protocol.connection.connections
            assert connections.drop_oldest(), "it is the oldest of those not let in"
            await asyncio.sleep(0.02)
            assert not connections.drop_oldest()

    asyncio.run(closed())

"""The relay of a host: one WebSocket to the server, on which all ranks of the host talk to it.

A thread of the watchdog. Ranks connect to it as they would to the server, by a Unix socket
(relay_socket.py), and it passes messages on without reading them: each rank has a channel on the
one WebSocket (trace_hooks/protocol/multiplexing.py). The server checks every channel as it checks
a rank's own socket. The relay connects when a rank does, so it needs no pauses of its own, and what
keeps it from connecting is its answer to the rank.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from trace_hooks.protocol.multiplexing import (
    MOST_CHANNELS,
    SUBPROTOCOL,
    Kind,
    Packet,
    decode,
    sendable,
)
from trace_hooks.protocol.server_address import Address
from trace_hooks.protocol.stall import Stall
from trace_hooks.recording import guard
from trace_hooks.watchdog.relay_socket import NOT_REACHED, NOT_SHARED, listening

CONNECT_S, AGAIN_S = 4.0, 1.0
"""Less than a rank waits for the relay's answer (agent/opening.py); and for how long a failure is
the answer to other ranks, too."""
SEND_S = 10.0
"""A server, or a rank, that reads nothing for this long is given up, as by a rank itself
(agent/opening.py)."""
WATCH_S = 1.0
STOP_S, LOOK_S = 15.0, 0.05
_MOST_WAITING = 256
"""Messages for a rank that reads nothing, and then the relay drops its connection; and ranks that
connect at once."""
_LONGEST_MESSAGE = 64 << 20
"""A rank keeps to the server's limit, which is less."""
_LONGEST_COMMAND = (1 << 20) + 1_000
_LOST = "the connection to the server was lost"
_SILENT = logging.getLogger("trace_hooks.relay")
_SILENT.setLevel(logging.CRITICAL + 1)
_SILENT.propagate = False


class _NotShared(Exception):
    """The server takes no socket of several ranks: it is of an earlier version."""


class _Channel:
    """A rank's connection to the relay, and the server's messages that wait for it."""

    def __init__(self, rank: ServerConnection) -> None:
        self.rank = rank
        self._waiting: asyncio.Queue[Packet] = asyncio.Queue(_MOST_WAITING)

    def put(self, packet: Packet) -> None:
        """Send a message to the rank; never waits for it, as other ranks would wait, too."""
        try:
            self._waiting.put_nowait(packet)
        except asyncio.QueueFull:
            self.rank.transport.abort()

    async def send_waiting(self) -> None:
        """Send what arrives until the server closes the channel; then close the rank's socket."""
        while (packet := await self._waiting.get()).kind is not Kind.CLOSE:
            await self.rank.send(packet.message)
        code, reason = packet.code_and_reason
        await self.rank.close(sendable(code), reason)


class Relay:
    """The thread, its socket for ranks, and the connection to the server."""

    def __init__(self, meeting: Path, address: Address) -> None:
        self._meeting, self._address = meeting, address
        self._numbers = count()
        self._channels: dict[int, _Channel] = {}
        self._server: ClientConnection | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._again_s = 0.0  # time before which a failed attempt is not repeated
        self._ended: tuple[int | None, str] = (None, _LOST)  # how the last connection ended
        self._tasks: list[asyncio.Task[None]] = []  # of the connection to the server
        self._stall = Stall()  # of the connection to the server
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Wait, for STOP_S at most, until the last rank has left and all is sent: it sends its last
        files and says goodbye when the watchdog sees it no more.
        """
        until_s = time.monotonic() + STOP_S
        while (self._channels or self._unsent()) and time.monotonic() < until_s:
            time.sleep(LOOK_S)

    def _unsent(self) -> int:
        server = self._server
        return server.transport.get_write_buffer_size() if server is not None else 0

    def _run(self) -> None:
        guard.attempt("relay.run", lambda: asyncio.run(self._serve()), switch_off=False)

    async def _serve(self) -> None:
        # not unix_serve: Python 3.13 would look for the socket at the path to which it was bound
        server = serve(
            self._carry,
            sock=listening(self._meeting, self._address),
            process_request=self._admit,
            backlog=_MOST_WAITING,
            compression=None,
            max_size=_LONGEST_MESSAGE,
            max_queue=1,  # what waits here is memory of the job, and frames grow old in it
            close_timeout=1.0,
            ping_interval=None,  # the kernel tells when a process of this host is gone
            logger=_SILENT,
        )
        async with server:
            await asyncio.Event().wait()

    async def _admit(self, rank: ServerConnection, _request: Request) -> Response | None:
        """Let a rank in once the server is there; else say why not."""
        if len(self._channels) >= MOST_CHANNELS:
            return rank.respond(NOT_SHARED, "as many ranks as one connection takes share it")
        try:
            await self._connected()
        except InvalidStatus as error:
            answer = rank.respond(
                NOT_REACHED, (error.response.body or b"").decode(errors="replace")
            )
            answer.status_code = error.response.status_code  # respond knows only those of HTTP
            return answer
        except _NotShared:
            return rank.respond(NOT_SHARED, "the server takes no socket of several ranks")
        except (
            OSError,
            EOFError,
            ValueError,
            WebSocketException,
        ) as error:  # ValueError: redirected
            return rank.respond(NOT_REACHED, str(error) or type(error).__name__)
        if self._stall.lasted_s > SEND_S / 2:
            return rank.respond(NOT_REACHED, "the server reads nothing")
        return None

    async def _connected(self) -> None:
        """Connect unless there is a connection; ranks that ask meanwhile share the attempt."""
        if self._server is not None:
            return
        attempt = self._connecting
        if attempt is None or (attempt.done() and time.monotonic() >= self._again_s):
            attempt = self._connecting = asyncio.ensure_future(self._attempt())
        await asyncio.shield(attempt)

    async def _attempt(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect()
        except TimeoutError:
            raise TimeoutError(f"no answer within {CONNECT_S:.0f} s") from None
        finally:
            self._again_s = 0.0 if self._server is not None else time.monotonic() + AGAIN_S

    async def _connect(self) -> None:
        # our own socket: a proxy of the environment must not get the token
        where = self._address.host_and_port
        opened = await asyncio.to_thread(socket.create_connection, where, CONNECT_S / 2)
        opened.setblocking(False)
        server = await connect(
            self._address.url,
            sock=opened,
            additional_headers={"Authorization": f"Bearer {self._address.token}"},
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            open_timeout=CONNECT_S / 2,
            close_timeout=1.0,
            max_size=_LONGEST_COMMAND,
            logger=_SILENT,
        )
        if server.subprotocol is None:
            await server.close()
            raise _NotShared
        self._server, self._stall = server, Stall()
        works = (self._read(server), self._watch(server, self._stall))
        self._tasks = [asyncio.create_task(work) for work in works]

    async def _watch(self, server: ClientConnection, stall: Stall) -> None:
        """Drop the connection to a server that reads nothing, for which `send` waits for ever."""
        while server.protocol.close_code is None:
            await asyncio.sleep(WATCH_S)
            unsent = server.transport.get_write_buffer_size()
            if stall.look(unsent, time.monotonic()) > SEND_S:
                server.transport.abort()

    async def _read(self, server: ClientConnection) -> None:
        """Pass the server's messages on until its connection ends, then close those of ranks."""
        with suppress(ConnectionClosed, ValueError):  # ValueError: it sent what is no packet
            async for message in server:
                packet = decode(message)
                channel = self._channels.get(packet.channel)
                if channel is not None:
                    channel.put(packet)
        ended = server.protocol
        self._ended = (ended.close_code, ended.close_reason or _LOST)
        self._server, lost = None, list(self._channels.items())  # later ones have another server
        for number, channel in lost:
            channel.put(Packet.closing(number, *self._ended))
        await server.close()

    async def _carry(self, rank: ServerConnection) -> None:
        """Pass a rank's messages on, and the server's to it, until either closes."""
        server, number = self._server, next(self._numbers)
        if server is None:  # lost since the rank was let in
            code, reason = self._ended
            await rank.close(sendable(code), reason)
            return
        channel = self._channels[number] = _Channel(rank)
        sending = asyncio.create_task(channel.send_waiting())
        try:
            with suppress(ConnectionClosed):
                await server.send(Packet(number, Kind.OPEN).encode())
                async for message in rank:
                    await server.send(Packet.of(number, message).encode())
            if rank.protocol.close_code is None:  # it is the server that has gone
                try:
                    with suppress(ConnectionClosed):
                        await asyncio.wait_for(sending, SEND_S)
                except TimeoutError:
                    rank.transport.abort()
        finally:
            sending.cancel()
            with suppress(ConnectionClosed):
                await server.send(Packet.closing(number, rank.protocol.close_code).encode())
            del self._channels[number]  # last, as `stop` waits for it

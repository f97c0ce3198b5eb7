"""The socket of a host: its relay carries the messages of all its ranks on it, in a channel each.

A channel behaves as a socket of the rank: its first message is the hello, it has the limits of a
rank, and the server closes it alone. So a rank can say no more here than on a socket of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from app.routes.live.closing import (
    CROWDED,
    FAILED,
    FLOOD,
    MALFORMED,
    SEND_S,
    SILENT,
    SILENT_S,
    Refused,
)
from app.web.connections import connection_of
from trace_hooks.protocol.file_transfer import MAGIC
from trace_hooks.protocol.multiplexing import MOST_CHANNELS, Kind, Packet, decode
from trace_hooks.protocol.token_bucket import Rate

MOST_WAITING_BYTES = 1 << 20
"""May wait for one rank while a slow disk stores one of its files, and one longer message in
addition. A rank without frames sends as much in a quarter of an hour."""
_MESSAGE_BYTES = 1_000
"""Memory of a message without its content."""
_STRAY_PER_S, _MOST_STRAY = 1_000.0, 10_000.0
"""Messages for channels that the server has closed: what was under way, and no more."""

Message = dict[str, Any]


class _Channel:
    """One rank on a host's socket, with the methods of a WebSocket."""

    def __init__(self, number: int, send: Callable[[Packet], Awaitable[None]]) -> None:
        self._number, self._send = number, send
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()
        self._num_bytes = 0
        self.is_open = True

    def put(self, message: Message) -> bool:
        """Add a message from the host; False if too much waits for it.

        A frame is left out then, as newer ones follow.
        """
        is_end = message["type"] == "websocket.disconnect"
        if self._num_bytes > MOST_WAITING_BYTES and not is_end:
            content = message.get("bytes")
            return content is not None and not content.startswith(MAGIC)
        self._arrived.put_nowait(message)
        self._num_bytes += _size(message)
        return True

    async def receive(self) -> Message:
        """The next ASGI message."""
        message = await self._arrived.get()
        self._num_bytes -= _size(message)
        if message["type"] == "websocket.disconnect":
            self.is_open = False
        return message

    async def send_json(self, data: Any) -> None:
        """Send a JSON object; raises WebSocketDisconnect where the host is gone."""
        await self._send(Packet.of(self._number, json.dumps(data, separators=(",", ":"))))

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close the channel, unless it is closed."""
        if self.is_open:
            self.is_open = False
            await self._send(Packet.closing(self._number, code, reason or ""))


class HostSocket:
    """A host's socket; `serve_rank` serves one channel until either side closes it."""

    def __init__(
        self, websocket: WebSocket, serve_rank: Callable[[_Channel], Awaitable[None]]
    ) -> None:
        self._websocket = websocket
        self._serve_rank = serve_rank
        self._channels: dict[int, _Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stray = Rate(_STRAY_PER_S, _MOST_STRAY)

    async def serve(self) -> None:
        """Pass messages to the channels until the host disconnects; raises Refused."""
        try:
            while (message := await self._message())["type"] != "websocket.disconnect":
                await self._take(message.get("bytes") or b"")
        finally:
            for channel in self._channels.values():
                channel.put(_disconnect(1006))
            await asyncio.gather(*self._tasks)

    async def _message(self) -> Message:
        try:
            async with asyncio.timeout(SILENT_S):
                return dict(await self._websocket.receive())
        except TimeoutError:
            raise Refused(SILENT, f"no message for {SILENT_S:.0f} s") from None

    async def _take(self, content: bytes) -> None:
        try:
            packet = decode(content)
        except ValueError as error:
            raise Refused(MALFORMED, str(error)) from error
        channel = self._channels.get(packet.channel)
        if packet.kind is Kind.OPEN and channel is None:
            await self._open(packet.channel)
        elif channel is not None:
            message = _asgi(packet)
            if message["type"] == "websocket.disconnect":  # what comes after it is stray
                del self._channels[packet.channel]
            if not channel.put(message):
                await self._end(packet.channel, channel)
        elif not self._stray.take():
            raise Refused(FLOOD, "messages arrive for channels that are closed")

    async def _open(self, number: int) -> None:
        if len(self._tasks) >= MOST_CHANNELS:  # also those whose messages wait for a slow disk
            reason = f"a host has at most {MOST_CHANNELS} ranks on one connection"
            await self._send(Packet.closing(number, CROWDED, reason))
            return
        channel = self._channels[number] = _Channel(number, self._send)
        task = asyncio.create_task(self._served(number, channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, number: int, channel: _Channel) -> None:
        """Close a channel for which too much waits; what waits is processed.

        Its rank connects again, and sends again the files that are not acknowledged.
        """
        del self._channels[number]
        channel.put(_disconnect(FAILED))
        await channel.close(FAILED, "the server's disk is slow, and too much of this rank waits")

    async def _served(self, number: int, channel: _Channel) -> None:
        try:
            await self._serve_rank(channel)
        finally:
            if self._channels.get(number) is channel:
                del self._channels[number]
            with suppress(TimeoutError, WebSocketDisconnect):  # the host has gone
                await channel.close()

    async def _send(self, packet: Packet) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                await self._websocket.send_bytes(packet.encode())
        except (TimeoutError, asyncio.CancelledError):  # whose limit ends first: also the caller's
            connection = connection_of(self._websocket.scope)
            if packet.kind is Kind.CLOSE and connection is not None:
                connection.drop()  # the host would take the channel for open
            raise
        except RuntimeError as error:  # starlette's, where the socket is closed already
            raise WebSocketDisconnect(1006) from error


def _asgi(packet: Packet) -> Message:
    """A packet as a WebSocket of the rank would have given it."""
    if packet.kind is Kind.TEXT:
        return {"type": "websocket.receive", "text": packet.message}
    if packet.kind is Kind.BINARY:
        return {"type": "websocket.receive", "bytes": packet.content}
    return _disconnect(packet.code_and_reason[0] if packet.kind is Kind.CLOSE else 1006)


def _size(message: Message) -> int:
    return _MESSAGE_BYTES + len(message.get("text") or message.get("bytes") or b"")


def _disconnect(code: int) -> Message:
    return {"type": "websocket.disconnect", "code": code}

"""WebSockets that accept longer messages only from clients with the job token.

uvicorn has one limit for all sockets. Browsers send short texts; ranks send frames.
"""

from __future__ import annotations

import json
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS

from app.web.caller import JOB
from app.web.connections import CONNECTION, HEAD_S, Connection
from trace_hooks.protocol.frames import MAX_FRAME_BYTES
from trace_hooks.protocol.multiplexing import HEAD_BYTES, SUBPROTOCOL

_TOO_LONG = json.dumps(
    {
        "error": "The head of this request for a WebSocket has a line of more than "
        f"{MAX_LINE_LENGTH:,} bytes or more than {MAX_NUM_HEADERS} headers; send less at a time."
    }
).encode()


class JobSockets(WebSocketsSansIOProtocol):
    """uvicorn's protocol, with a higher limit once the guard knows that a rank connects."""

    @property
    def connection(self) -> Connection:
        """The connection that app.web.bounded_http passed on in the state."""
        connection: Connection = self.app_state[CONNECTION]
        return connection

    def connection_made(self, transport: Any) -> None:
        """Take over a connection from HTTP; it has a deadline until the guard lets it in."""
        super().connection_made(transport)
        self.connection.is_idle = False
        self.connection.deadline_s = self.loop.time() + HEAD_S

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting it."""
        super().connection_lost(exc)
        self.connection.connections.forget(self.connection)

    def data_received(self, data: bytes) -> None:
        """Process the bytes; refuse a head that the parser rejects: uvicorn would wait forever."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(_TOO_LONG), _TOO_LONG)
            )
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Pass on a message of the application."""
        if message["type"] == "websocket.accept" and self.scope.get(JOB):
            self.conn.max_message_size = MAX_FRAME_BYTES
            if message.get("subprotocol") == SUBPROTOCOL:  # the relay of a host
                self.conn.max_message_size += HEAD_BYTES
        if self.connection.session is not None:
            self.connection.deadline_s = None
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused in HTTP: uvicorn would log that as a failure

"""uvicorn's HTTP protocol with a deadline for each part of a request (app.web.connections)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.connections import BODY_IDLE_S, CONNECTION, HEAD_S, Connection, Connections

UNKNOWN_KEEP_ALIVE_S = 5
"""How long a connection stays open between two requests if none was let in yet."""


class Config(uvicorn.Config):
    """uvicorn's config, with the connections that the protocols count."""

    def __init__(self, app: ASGIApp, connections: Connections, **options: Any) -> None:
        super().__init__(app, http=BoundedHttp, **options)
        self.bounds = connections


class BoundedHttp(H11Protocol):
    """The head of a request has one deadline; a body has one after each of its chunks."""

    config: Config
    connection: Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to count it; requests carry the connection in their state."""
        super().connection_made(transport)
        self.connection = self.config.bounds.of(transport)
        self.app_state = self.app_state | {CONNECTION: self.connection}

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting it."""
        super().connection_lost(exc)
        self.config.bounds.forget(self.connection)

    def data_received(self, data: bytes) -> None:
        """Process the bytes and set the deadline for the next ones."""
        super().data_received(data)
        if self.transport.get_protocol() is self:  # else a WebSocket uses it now
            self._set_deadline()

    def on_response_complete(self) -> None:
        """Keep the connection open; shorter if no request on it was let in."""
        if self.connection.session is None:
            self.timeout_keep_alive = min(UNKNOWN_KEEP_ALIVE_S, self.config.timeout_keep_alive)
        else:
            self.timeout_keep_alive = self.config.timeout_keep_alive
        self.connection.deadline_s = None
        super().on_response_complete()
        self._set_deadline()

    def send_400_response(self, msg: str) -> None:
        """Answer in one sentence that this is not HTTP, or that its head is too long."""
        sentence = (
            "This is not a valid HTTP/1.1 request, or its head has more than 64 KiB; "
            "send less, in the usual form."
        )
        body = json.dumps({"error": sentence}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _set_deadline(self) -> None:
        connection, now_s = self.connection, self.loop.time()
        connection.is_idle = self.cycle is None or self.cycle.response_complete
        if not connection.is_idle:
            waits = self.cycle.more_body and not self.flow.read_paused
            connection.deadline_s = now_s + BODY_IDLE_S if waits else None
        elif self.conn.their_state is h11.SEND_BODY and connection.session is not None:
            connection.deadline_s = (
                now_s + BODY_IDLE_S
            )  # the client reads the answer after sending the whole body
        elif self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
            # the head of the next request, or an unknown client's body: more bytes do not extend it
            connection.deadline_s = connection.deadline_s or now_s + HEAD_S

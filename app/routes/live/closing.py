"""How the server closes a rank's socket: with a close code and one sentence."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from starlette.websockets import WebSocketDisconnect

MALFORMED, UNKNOWN_TOKEN, NOT_YOURS, SILENT, REPLACED = 4400, 4401, 4403, 4408, 4409
OTHER_VERSION, FLOOD, FAILED, CROWDED = 4426, 4429, 4500, 4503
"""Close codes."""
SILENT_S = 15.0
"""A rank that sends nothing for this long is gone; it sends a heartbeat each second."""
SEND_S = 10.0
_LONGEST_REASON = 120


class RankLine(Protocol):
    """What the server needs of a rank's connection: a WebSocket, or a channel of a host's."""

    async def receive(self) -> Any:
        """The next ASGI message."""

    async def send_json(self, data: Any) -> None:
        """Send a JSON object."""

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close it."""


class Refused(Exception):
    """The server closes the connection: close code and one sentence."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


async def close(line: RankLine, refused: Refused) -> None:
    """Close a rank's connection, and say why."""
    short = str(refused).encode()[:_LONGEST_REASON].decode(errors="ignore")
    # the rank has disconnected already
    with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        await asyncio.wait_for(line.close(refused.code, short), SEND_S)

"""WebSockets that take longer messages from those who came with the job token, and from them only.

uvicorn has one limit for all sockets. Browsers send short texts; ranks send frames.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from app.auth import JOB
from trace_hooks.frames import MAX_FRAME_BYTES


class JobSockets(WebSocketsSansIOProtocol):
    """As uvicorn's own, with the limit raised once the guard knows who it is."""

    async def send(self, message: Any) -> None:
        """Hand a message of the application on."""
        if message["type"] == "websocket.accept" and self.scope.get(JOB):
            self.conn.max_message_size = MAX_FRAME_BYTES
        await super().send(message)

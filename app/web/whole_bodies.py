"""Reads bodies of requests for pages completely, so that no answering thread waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.caller import SESSION, TOKEN

LONGEST_S = 30.0
"""Time limit for a whole body; those of our pages have a few kilobytes."""
MOST_TOGETHER = 16 << 20
"""Bytes of unfinished bodies that one token (without tokens: one browser) may send at once."""
_GONE = 499


class WholeBodies:
    """Passes requests on once their whole body has arrived. `most_bytes`: of one body."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self.app = app
        self.most_bytes = most_bytes
        self._held: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and pass the request on, or answer that it is too long or too slow."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        owner, body = scope.get(TOKEN) or scope.get(SESSION, ""), bytearray()
        try:
            refusal = await self._read(receive, body, owner)
            if refusal is None:
                await self.app(scope, _replayed(bytes(body), receive), send)
            else:
                await refusal(scope, receive, send)
        finally:
            self._held[owner] -= len(body)
            self._held += Counter()  # drops the keys with nothing left

    async def _read(self, receive: Receive, body: bytearray, owner: str) -> Response | None:
        """Read the whole body; returns the refusal if that is not possible."""
        try:
            async with asyncio.timeout(LONGEST_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return Response(status_code=_GONE)
                    piece = message.get("body", b"")
                    body += piece
                    self._held[owner] += len(piece)
                    if len(body) > self.most_bytes:
                        return _sentence(413, f"This is longer than {self.most_bytes:,} bytes.")
                    if self._held[owner] > MOST_TOGETHER:
                        return _sentence(503, "Too many long requests at once; try again.")
                    if not message.get("more_body", False):
                        return None
        except TimeoutError:
            return _sentence(
                408, f"The rest of this request did not arrive within {LONGEST_S:g} s."
            )


def _sentence(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status, {"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that first returns the body."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def take() -> Message:
        return next(messages, None) or await receive()

    return take

"""Bodies of requests for pages are read here, before a thread that answers has to wait for them."""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.caller import SESSION, TOKEN

LONGEST_S = 30.0
"""What a body gets to come as a whole; those of our pages have some kilobytes."""
MOST_TOGETHER = 16 << 20
"""Bytes of bodies that one token (without tokens: one browser) may have under way."""
_GONE = 499


class WholeBodies:
    """Hands requests on once all of their body is here. `most_bytes`: of one body."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self.app = app
        self.most_bytes = most_bytes
        self._held: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and hand on, or answer that it is too long or too slow."""
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
            self._held += Counter()  # without those that hold nothing

    async def _read(self, receive: Receive, body: bytearray, owner: str) -> Response | None:
        """Read all of it; what to answer where that is not possible."""
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
            return _sentence(408, f"The rest of this request did not come within {LONGEST_S:g} s.")


def _sentence(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status, {"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What gives the body at first."""
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def take() -> Message:
        return next(given, None) or await receive()

    return take

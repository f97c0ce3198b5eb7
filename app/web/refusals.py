"""Refuses a request before any route sees it: with one sentence, also for a WebSocket."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send


def sentence(status: int, text: str) -> JSONResponse:
    """A JSON answer with one error sentence."""
    return JSONResponse({"error": text}, status)


async def refuse(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the answer; to a WebSocket as an HTTP response if possible, else close it (403)."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
        "extensions", {}
    ):
        await send({"type": "websocket.close", "code": 1008})
    else:
        await answer(scope, receive, send)

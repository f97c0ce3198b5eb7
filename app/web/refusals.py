"""How a request is refused before any route has seen it: one sentence, also to a WebSocket."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send


def sentence(status: int, text: str) -> JSONResponse:
    """An answer that says what is wrong."""
    return JSONResponse({"error": text}, status)


async def refuse(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send it; to a WebSocket before it is accepted, where the server can, else close it (403)."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
        "extensions", {}
    ):
        await send({"type": "websocket.close", "code": 1008})
    else:
        await answer(scope, receive, send)

"""How long an address may be: one bound for every route and every socket."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST_QUERY = 32_768
"""Bytes; the longest link that the dashboard makes names 4,096 lanes."""
MOST_PARAMETERS = 200


_TWO_LENGTHS = (
    "This request has Content-Length and Transfer-Encoding, which may differ; send one of them."
)


class BoundedAddress:
    """Refuses two lengths, and a query string that is too long, before anybody takes it apart."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or refuse it."""
        names = {name for name, _ in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= names:
            # a proxy may have seen another end of this request than this server
            close = {"Connection": "close"}
            answer = JSONResponse({"error": _TWO_LENGTHS}, 400, close)
            await refuse(answer, scope, receive, send)
            return
        query = scope.get("query_string", b"")
        num_parameters = query.count(b"&") + 1
        if len(query) <= LONGEST_QUERY and num_parameters <= MOST_PARAMETERS:
            await self.app(scope, receive, send)
            return
        sentence = (
            f"This address has {num_parameters:,} parameters in {len(query):,} bytes; at most "
            f"{MOST_PARAMETERS} in {LONGEST_QUERY:,} bytes are taken. Ask for less at a time."
        )
        await refuse(JSONResponse({"error": sentence}, 414), scope, receive, send)


async def refuse(answer: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Send it; to a WebSocket before it is accepted, where the server can, else close it (403)."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
        "extensions", {}
    ):
        await send({"type": "websocket.close", "code": 1008})
    else:
        await answer(scope, receive, send)

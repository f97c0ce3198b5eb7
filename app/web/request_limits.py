"""Refuses addresses that are too long and requests with two body lengths, for every route."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.refusals import refuse, sentence

LONGEST_QUERY = 32_768
"""Bytes; the longest link that the dashboard makes names 4,096 lanes."""
MOST_PARAMETERS = 200
_TWO_LENGTHS = (
    "This request has Content-Length and Transfer-Encoding, which may differ; send one of them."
)


class RequestLimits:
    """Refuses such requests before anything parses them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        names = {name for name, _ in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= names:
            # a proxy may see the end of this request in a different place than this server
            answer = sentence(400, _TWO_LENGTHS)
            answer.headers["Connection"] = "close"
            await refuse(answer, scope, receive, send)
            return
        text = too_long(scope.get("query_string", b""))
        if not text:
            await self.app(scope, receive, send)
            return
        await refuse(sentence(414, text), scope, receive, send)


def too_long(query: bytes) -> str:
    """Why nobody may parse this query of an address, one sentence; '' if it is short enough."""
    num_parameters = query.count(b"&") + 1
    if len(query) <= LONGEST_QUERY and num_parameters <= MOST_PARAMETERS:
        return ""
    return (
        f"This address has {num_parameters:,} parameters in {len(query):,} bytes; at most "
        f"{MOST_PARAMETERS} in {LONGEST_QUERY:,} bytes are allowed. Request less at a time."
    )

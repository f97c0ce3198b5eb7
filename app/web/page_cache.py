"""What Dash answers alike to everybody, made once: the page's frame, its scripts, its callbacks.

Dash makes each of them anew through Flask, and the scripts are megabytes: twenty browsers that come
at once waited seconds for them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.answers import Body

SCRIPTS = "/_dash-component-suites/"
ALIKE = ("/_dash-layout", "/_dash-dependencies")
_DASH = "/_dash"
_FRAME = "the frame of every page"
MOST = 64
"""Answers kept, those used last; a script may be asked for under many names."""
_KEPT_HEADERS = ("cache-control", "etag", "last-modified")


@dataclass(frozen=True)
class _Kept:
    body: Body
    headers: tuple[tuple[str, str], ...]


class KeptPages:
    """Wraps the Dash app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from what is kept, or hand on and keep."""
        name = _name(scope)
        if name is None:
            await self.app(scope, receive, send)
            return
        kept = self._kept.get(name)
        if kept is None:
            kept = await self._ask(scope, receive, send)
            if kept is None:
                return
            self._kept[name] = kept
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(name)
        request = Request(scope)
        response = kept.body.response(request)
        response.headers.update(dict(kept.headers))
        await response(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> _Kept | None:
        """What the app answers; None where that is no success: then it has been sent."""
        begun: Message | None = None
        parts: list[bytes] = []

        async def take(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] == 200:
                begun = message
            elif begun is None:
                await send(message)
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, take)
        if begun is None:
            return None
        headers = Headers(raw=begun["headers"])
        kept = tuple((key, headers[key]) for key in _KEPT_HEADERS if key in headers)
        return _Kept(Body.of(b"".join(parts), headers.get("content-type", "")), kept)


def _name(scope: Scope) -> str | None:
    """Under what an answer is kept, None: it is not the same for everybody."""
    path: str = scope.get("path", "")
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if path.startswith(SCRIPTS) or path in ALIKE:
        return path
    return None if path.startswith(_DASH) else _FRAME

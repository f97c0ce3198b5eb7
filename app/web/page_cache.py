"""Caches Dash's answers that are the same for everybody: the page, its scripts, its callbacks.

Dash builds each answer again through Flask, and the scripts have megabytes: twenty browsers that
opened a page at once waited seconds for them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.answers import Body

SCRIPTS = "/_dash-component-suites/"
SHARED = ("/_dash-layout", "/_dash-dependencies")
_DASH = "/_dash"
_PAGE = "the HTML of every page"
MOST = 64
"""Maximum number of cached answers; the least recently used one is evicted."""
_CACHED_HEADERS = ("cache-control", "etag", "last-modified")


@dataclass(frozen=True)
class _CachedAnswer:
    body: Body
    headers: tuple[tuple[str, str], ...]


class PageCache:
    """Wraps the Dash app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._cached: OrderedDict[str, _CachedAnswer] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the cache; otherwise pass the request on and cache the answer."""
        name = _name(scope)
        if name is None:
            await self.app(scope, receive, send)
            return
        answer = self._cached.get(name)
        if answer is None:
            answer = await self._request(scope, receive, send)
            if answer is None:
                return
            self._cached[name] = answer
            while len(self._cached) > MOST:
                self._cached.popitem(last=False)
        else:
            self._cached.move_to_end(name)
        request = Request(scope)
        response = answer.body.response(request)
        response.headers.update(dict(answer.headers))
        await response(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> _CachedAnswer | None:
        """The app's answer; None if it is an error, which is then sent already."""
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
        cached = tuple((key, headers[key]) for key in _CACHED_HEADERS if key in headers)
        return _CachedAnswer(Body.of(b"".join(parts), headers.get("content-type", "")), cached)


def _name(scope: Scope) -> str | None:
    """The answer's key in the cache; None if it is not the same for everybody."""
    path: str = scope.get("path", "")
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if path.startswith(SCRIPTS) or path in SHARED:
        return path
    return None if path.startswith(_DASH) else _PAGE

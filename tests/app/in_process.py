"""A browser's side of the server, in process: whole answers, and streams that can be left."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
from starlette.types import ASGIApp

ADDRESS = "http://127.0.0.1:8050"


class Client:
    """Requests to an ASGI app, one event loop for all of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._loop = asyncio.new_event_loop()

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The whole answer of one request."""
        return self._loop.run_until_complete(self._request(method, path, given))

    async def _request(self, method: str, path: str, given: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            return await client.request(method, path, **given)

    def get(self, path: str, **given: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **given)

    def leave(
        self,
        method: str,
        path: str,
        body: bytes,
        after_s: float,
        is_whole: bool = False,
        **headers: str,
    ) -> None:
        """Send part of a body, or all of it, and go away `after_s` later; returns once the app has
        noticed.
        """
        is_more = method in ("POST", "PATCH") and not is_whole
        self._loop.run_until_complete(self._leave(method, path, body, after_s, headers, is_more))

    async def _leave(
        self,
        method: str,
        path: str,
        body: bytes,
        after_s: float,
        headers: dict[str, str],
        is_more: bool,
    ) -> None:
        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": target,
            "raw_path": target.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8050),
            "headers": [
                (b"host", b"127.0.0.1:8050"),
                *((k.lower().encode(), v.encode()) for k, v in headers.items()),
            ],
        }
        messages = [{"type": "http.request", "body": body, "more_body": is_more}]
        leaves_s = time.monotonic() + after_s

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            if (wait_s := leaves_s - time.monotonic()) > 0:  # the app looks again and again
                await asyncio.sleep(wait_s)
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        await self.app(scope, receive, send)

    def close(self) -> None:
        """End the loop and its threads."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

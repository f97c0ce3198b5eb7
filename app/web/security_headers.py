"""Security headers of every answer: content policy, sniffing, framing."""

from __future__ import annotations

import base64
import hashlib
import re

from flask import Flask
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CSP = (
    "default-src 'self'; connect-src 'self' {sockets}; script-src 'self' {hashes}; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:.]+\](:\d+)?", re.ASCII)
_INLINE_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


class SecurityHeaders:
    """Adds the headers. `pages`: its inline scripts may run; `public_origin`: '' or https://host."""

    def __init__(self, app: ASGIApp, pages: Flask, public_origin: str = "") -> None:
        self.app = app
        self.hashes = " ".join(f"'sha256-{digest}'" for digest in sorted(_script_hashes(pages)))
        self.public_host = public_origin.partition("://")[2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and add the headers to its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        added = _HEADERS | {"Content-Security-Policy": self._policy(Headers(scope=scope))}

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                existing = Headers(raw=message["headers"])
                if "cache-control" not in existing:  # else browsers guess how long to cache it
                    added["Cache-Control"] = "no-cache"
                raw = [(k.lower().encode(), v.encode()) for k, v in added.items()]
                message["headers"] = [*message["headers"], *raw]
            await send(message)

        await self.app(scope, receive, send_more)

    def _policy(self, headers: Headers) -> str:
        """The policy for this request: in some browsers 'self' does not include WebSockets."""
        hosts = [host for host in (headers.get("host", ""), self.public_host) if host]
        sockets = [
            f"{scheme}://{host}"
            for host in dict.fromkeys(hosts)
            if _HOST.fullmatch(host)
            for scheme in ("ws", "wss")
        ]
        return _CSP.format(sockets=" ".join(sockets), hashes=self.hashes)


def _script_hashes(pages: Flask) -> set[str]:
    page = pages.test_client().get("/").get_data(as_text=True)
    return {
        base64.b64encode(hashlib.sha256(script["text"].encode()).digest()).decode()
        for script in _INLINE_SCRIPT.finditer(page)
        if "src=" not in script["attributes"] and "json" not in script["attributes"]
    }

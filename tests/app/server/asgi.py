"""Asks an ASGI app in process, byte for byte as given: no client tidies up hosts or paths."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

LOCAL = "127.0.0.1:8050"
LIMIT_S = 30.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Keeps cookies from one request to the next, as a browser does."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.cookies: dict[str, str] = {}

    def get(self, target: str, **headers: str) -> Answer:
        return self.request("GET", target, **headers)

    def post(self, target: str, body: bytes = b"", **headers: str) -> Answer:
        return self.request("POST", target, body, **headers)

    def request(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        exchange = self.exchange(method, target, body, headers)
        answer = asyncio.run(asyncio.wait_for(exchange, LIMIT_S))
        for name, morsel in SimpleCookie(answer.headers.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
        return answer

    async def exchange(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        left: asyncio.Event | None = None,
    ) -> Answer:
        """The whole answer, in the loop of the caller; a browser that goes when `left` is set."""
        scope = self.scope("http", target, headers or {}) | {"method": method}
        requests = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            if requests:
                return requests.pop()
            await (left or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        named = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], named, content)

    def opens(self, target: str, **headers: str) -> bool:
        """Whether a WebSocket is accepted."""
        scope = self.scope("websocket", target, headers) | {"subprotocols": []}
        sent: list[str] = []

        async def exchange() -> None:
            messages = iter(["websocket.connect", "websocket.disconnect"])

            async def receive() -> Message:
                return {"type": next(messages), "code": 1000}

            async def send(message: Message) -> None:
                sent.append(message["type"])

            await asyncio.wait_for(self.app(scope, receive, send), LIMIT_S)

        asyncio.run(exchange())
        return sent[0] == "websocket.accept"

    def scope(self, kind: str, target: str, headers: dict[str, str]) -> dict[str, Any]:
        """What an ASGI server would give the app; `kind`: http or websocket."""
        path, _, query = target.partition("?")
        named = {"host": LOCAL} | {k.replace("_", "-"): v for k, v in headers.items()}
        if self.cookies:
            named["cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        return {
            "type": kind,
            "http_version": "1.1",
            "scheme": "http" if kind == "http" else "ws",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "server": ("127.0.0.1", 8050),
            "client": ("127.0.0.1", 5),
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in named.items()],
        }

"""The real server in this process, on a free loopback port."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from app.runs.hub import Hub
from app.serving import running, take_port
from app.settings import Settings

WAIT_S = 60.0


class Served:
    """A server of this process, and plain requests to it."""

    def __init__(self, hub: Hub, port: int) -> None:
        self.hub = hub
        self.port = port
        self.address = f"127.0.0.1:{port}"

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        return ask(self.address, path, method, body, **headers)

    def socket(self, path: str = "/api/live", **options: Any) -> ClientConnection:
        return connect(f"ws://{self.address}{path}", **options)


def ask(
    address: str, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def logged_in(address: str, secret: str) -> dict[str, str]:
    """The cookie of a browser that has opened a link with the token."""
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request("GET", f"/?token={secret}")
        cookie = connection.getresponse().headers["Set-Cookie"]
        return {"Cookie": cookie.partition(";")[0]}
    finally:
        connection.close()


@contextmanager
def served(runs: Path, settings: Settings) -> Iterator[Served]:
    listener = take_port(settings)
    hub = Hub(runs)
    with running(hub, settings, listener):
        yield Served(hub, listener.getsockname()[1])

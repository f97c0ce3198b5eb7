"""A proxy in front of a server that speaks S3, which fails as such storage fails."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NOT_SENT = ("transfer-encoding", "expect", "content-length", "connection")
_NOT_PASSED = ("transfer-encoding", "connection", "content-length", "date", "server")
_ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>{0} as asked</Message></Error>"


@dataclass(frozen=True)
class Request:
    """What is asked; `path` with the query."""

    method: str
    path: str
    is_signed: bool


@dataclass
class Answer:
    """What is answered. `is_cut`: the connection closes after half of the body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    is_cut: bool = False


Fault = Callable[[Request, Callable[[], Answer]], Answer | None]
"""Called with each request and what passes it on; None: this fault does not concern it."""


class FaultyProxy:
    """Listens on loopback; `requests` are all that came, `faults` are asked in their order."""

    def __init__(self, target_port: int) -> None:
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                proxy.answer(self, target_port)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self, method: str, part: str) -> int:
        """How many requests of a method had this in their path."""
        return sum(one.method == method and part in one.path for one in list(self.requests))

    def answer(self, handler: BaseHTTPRequestHandler, target_port: int) -> None:
        """Answer one request."""
        body = _body(handler)
        signed = "Authorization" in handler.headers
        request = Request(handler.command, handler.path, signed)
        self.requests.append(request)

        def passed_on() -> Answer:
            target = http.client.HTTPConnection("127.0.0.1", target_port, timeout=60)
            sent = {n: v for n, v in handler.headers.items() if n.lower() not in _NOT_SENT}
            target.request(request.method, request.path, body, sent)
            got = target.getresponse()
            content = got.read()
            length = [("Content-Length", got.headers.get("Content-Length", "0"))]
            headers = [pair for pair in got.getheaders() if pair[0].lower() not in _NOT_PASSED]
            return Answer(
                got.status, headers + (length if request.method == "HEAD" else []), content
            )

        given = (fault(request, passed_on) for fault in list(self.faults))
        answer = next((one for one in given if one is not None), None) or passed_on()
        handler.send_response(answer.status)
        for name, value in answer.headers:
            handler.send_header(name, value)
        if request.method != "HEAD":
            handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        if request.method == "HEAD":
            return
        if answer.is_cut:
            handler.wfile.write(answer.body[: len(answer.body) // 2])
            handler.close_connection = True
        else:
            handler.wfile.write(answer.body)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    """What comes with a request, in chunks or whole."""
    if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    pieces = []
    while size := int(handler.rfile.readline().partition(b";")[0], 16):
        pieces.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():  # trailers
        pass
    return b"".join(pieces)


def error(status: int, code: str) -> Answer:
    """An answer of S3 that something is wrong."""
    return Answer(status, [("Content-Type", "application/xml")], _ERROR.format(code).encode())


def every(number: int, fault: Fault) -> Fault:
    """The fault, in the first of so many requests that it concerns."""
    counted = {"asked": 0}
    lock = threading.Lock()

    def now_and_then(request: Request, passed_on: Callable[[], Answer]) -> Answer | None:
        with lock:
            counted["asked"] += 1
            is_now = counted["asked"] % number == 1
        return fault(request, passed_on) if is_now else None

    return now_and_then


def slow_down(_request: Request, _passed_on: Callable[[], Answer]) -> Answer:
    """503, as where a prefix gets too many requests."""
    return error(503, "SlowDown")


def slow(_request: Request, passed_on: Callable[[], Answer]) -> Answer:
    """An answer that takes a while."""
    time.sleep(0.3)
    return passed_on()


def truncated(request: Request, passed_on: Callable[[], Answer]) -> Answer | None:
    """Half of an object, then the connection closes."""
    if request.method != "GET" or "list-type" in request.path:
        return None
    answer = passed_on()
    answer.is_cut = True
    return answer


def unsigned_refused(request: Request, _passed_on: Callable[[], Answer]) -> Answer | None:
    """403 for requests without credentials."""
    return None if request.is_signed else error(403, "AccessDenied")


def late_listing(key_part: str) -> Fault:
    """Listings that lack the objects with this in their key."""

    def late(request: Request, passed_on: Callable[[], Answer]) -> Answer | None:
        if "list-type" not in request.path:
            return None
        answer = passed_on()
        pattern = rb"<Contents>(?:(?!</Contents>).)*?" + re.escape(key_part.encode())
        answer.body = re.sub(
            pattern + rb"(?:(?!</Contents>).)*</Contents>", b"", answer.body, flags=re.DOTALL
        )
        return answer

    return late

"""Every route with every parameter, header and body malformed: a sentence, never a 500."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message

from app.server import make_app
from app.view_state import _FIELDS
from tests.app.one_run import hub_of_one_run
from tests.app.server.asgi import Client
from tests.hostile.requests.malformed import BAD_TEXTS, DIGITS, mutants, some

VALID = {
    "ticket": "x",
    "run": "job",
    "attempt": "0",
    "steps": "0..1",
    "against": "0..1",
    "peak": "1",
    "bandwidth": "1",
    "rank": "0",
    "ranks": "0,1",
    "near": "0..1",
    "rows": "0..1",
    "height": "100",
    "width": "100",
    "quick": "1",
    "wait": "no",
    "order": "rank",
    "metric": "step_ms",
    "sort": "rank",
    "dir": "asc",
    "filter": "0",
    "page": "overview",
    "group": "1",
    "seq": "0",
    "src": "0",
    "dst": "1",
    "from": "0",
    "to": "9999",
    "name": "x",
    "lanes": "default",
    "tensor": "grads",
    "statistic": "rms",
    "row": "0",
    "axis": "step",
    "what": "attention",
    "step": "1",
    "layer": "0",
    "expert": "0",
    "router": "0",
    "head": "0",
    "sample": "0",
    "shard": "x",
    "axes": "first",
    "unit": "1",
    "watch": "w",
    "reports": "1",
    "q": "steps",
    "q.step_min": "0",
    "sql": "SELECT%201",
    "t": "0..9999",
    "replay": "1",
    "finding": "x",
    "text": "x",
    "least": "error",
    "tp": "2",
    "dp": "1",
    "host": "h0",
    "test": "pair",
    "bytes": "0",
    "by": "rank",
    "model": "x",
    "microbatches": "8",
    "chunks": "2",
    "split": "equal",
    "held": "4",
    "memory": "80",
    "forward_speed": "0.5",
    "handover_ms": "2",
    "stragglers": "no",
    "until": "2026-03-31",
}
"""Parameters that routes take, each with a value that some of them accept."""
HEADERS = (
    "accept-encoding",
    "content-length",
    "content-type",
    "cookie",
    "if-modified-since",
    "if-none-match",
    "range",
    "tus-resumable",
    "upload-length",
    "upload-offset",
)
BODIES: dict[str, list[Any]] = {
    "/api/uploads": [{"files": [{"name": "a.json", "size": 3}]}],
    "/api/watch": [
        {"watches": [{"id": "w", "what": ["attention"], "layers": [0], "every": 1}], "end": ["x"]}
    ],
    "/api/command": [
        {"name": "prompt", "args": {"tokens": [1, 2], "steps": 1}, "ranks": [0]},
        {"name": "perturb", "args": {"id": "p", "kind": "noise", "layer": 0}, "ranks": None},
        {"name": "capture_kernels", "args": {"steps": 1}},
        {"name": "record_spans", "args": {"steps": 1}},
    ],
    "/api/run/{run}/layout": [{"sizes": {"tp": 2, "dp": 1}, "order": "tp-dp"}],
}
"""What those who keep to it send to the routes that take JSON."""
OTHER_BODIES: list[Any] = [{"sql": "SELECT 1", "q": "steps", "args": {"step_min": "0"}}]
TUS = {"tus-resumable": "1.0.0"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starlette]:
    with hub_of_one_run(tmp_path_factory.mktemp("runs")) as hub:
        yield make_app(hub)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


class Walk:
    """Requests to one app, and which of them were answered with a 500 or a traceback."""

    def __init__(self, app: Starlette, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self._loop = loop
        self.failed: dict[str, str] = {}
        """one request of each kind that failed"""

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer."""
        exchange = Client(self.app).exchange(method, target, body, headers)
        status, content, wrong = 0, b"", ""
        try:
            answer = self._loop.run_until_complete(asyncio.wait_for(exchange, 60))
            status, content = answer.status, answer.body
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a traceback of the server
            wrong = repr(error)[:200]
        if wrong or not 0 < status < 500:
            what = f"{status} {wrong}: {method} {target[:200]} {headers} {body[:300]!r}"
            self.failed.setdefault(f"{method} {target.partition('?')[0][:60]} {wrong}", what)
        return status, content

    def names(self, route: Route, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Parameters that a route reads, where they are there and where they are not."""
        read: set[str] = set()

        def noted(of: str) -> Any:
            plain = getattr(QueryParams, of)

            def get(given: QueryParams, name: str, *default: Any) -> Any:
                read.add(name)
                return plain(given, name, *default)

            return get

        with monkeypatch.context() as patch:
            for of in ("get", "getlist"):
                patch.setattr(QueryParams, of, noted(of))
            for query in ("", _query(VALID)):
                self.ask("GET", f"{path_of(route)}?{query}")
        return sorted(read)


def _query(values: dict[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in values.items())


def path_of(route: Route, run: str = "job") -> str:
    return route.path.replace("{run}", run).replace("{id}", "0").replace("{path:path}", "x")


def _routes(app: Starlette, method: str) -> list[Route]:
    return [r for r in app.routes if isinstance(r, Route) and method in (r.methods or ())]


def test_no_malformed_parameter_fails(
    app: Starlette, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(app, loop)
    for number, route in enumerate(_routes(app, "GET")):
        names = walk.names(route, monkeypatch)
        assert set(names) <= VALID.keys(), f"{route.path}: add them to VALID"
        texts = {name: some(BAD_TEXTS, number + at) for at, name in enumerate(names)}
        if any(part in route.path for part in ("/timeline", "/share", "/query")):
            # app.view_state reads these for all such routes: each route tries some of the texts
            for place, name in enumerate([*_FIELDS, "q.step_min"]):
                texts[name] = some(BAD_TEXTS, number + place, 12)
        if route.path.endswith("/layout"):
            texts |= dict.fromkeys(["tp", "dp", "order"], BAD_TEXTS)
        for at, (name, bad_texts) in enumerate(texts.items()):
            for text in bad_texts:
                walk.ask("GET", f"{path_of(route)}?{_query(VALID | {name: text})}")
            for text in some(BAD_TEXTS[::3], number + at):  # the others are missing
                walk.ask("GET", f"{path_of(route)}?{name}={text}")
    assert not walk.failed, "\n".join(walk.failed.values())


def test_no_malformed_path_or_method_fails(app: Starlette, loop: asyncio.AbstractEventLoop) -> None:
    walk = Walk(app, loop)
    for number, route in enumerate(one for one in app.routes if isinstance(one, Route)):
        for text in some(BAD_TEXTS, number, 6):
            path = route.path.replace("{path:path}", text).replace("{id}", text)
            walk.ask("GET", f"{path.replace('{run}', text).replace('{version}', text)}?step=1")
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "NONSENSE"):
            walk.ask(method, path_of(route), headers=TUS)
    assert not walk.failed, "\n".join(walk.failed.values())


def test_no_malformed_header_fails(app: Starlette, loop: asyncio.AbstractEventLoop) -> None:
    walk = Walk(app, loop)
    texts = ("", "x", "-1", DIGITS, "\xff\xfe")
    for number, route in enumerate(one for one in app.routes if isinstance(one, Route)):
        for method in route.methods or ():
            for at, name in enumerate(HEADERS):
                for text in some(texts, number + at):
                    walk.ask(method, path_of(route), b"{}", TUS | {name: text})
    assert not walk.failed, "\n".join(walk.failed.values())


def test_no_malformed_body_fails(app: Starlette, loop: asyncio.AbstractEventLoop) -> None:
    walk = Walk(app, loop)
    for number, route in enumerate(_routes(app, "POST")):
        if "{path" in route.path:
            continue
        target = f"{path_of(route)}?run=job"
        for content in (b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"\x00", b'"\\ud800"'):
            walk.ask("POST", target, content, TUS)
        for body in BODIES.get(route.path, OTHER_BODIES):
            for mutant in some(list(mutants(body)), number, 3):
                walk.ask("POST", target, json.dumps(mutant).encode(), TUS)
    assert not walk.failed, "\n".join(walk.failed.values())


def test_an_offset_of_five_thousand_digits_is_a_conflict(
    app: Starlette, loop: asyncio.AbstractEventLoop
) -> None:
    walk = Walk(app, loop)
    body = json.dumps({"files": [{"name": "a.json", "size": 3}]}).encode()
    _, answer = walk.ask("POST", "/api/uploads", body, TUS)
    url = f"/api/uploads/{json.loads(answer)['id']}"
    headers = TUS | {"content-type": "application/offset+octet-stream"}
    status, answer = walk.ask("PATCH", url, b"abc", headers | {"upload-offset": DIGITS})
    assert status == 409
    assert "Upload-Offset" in json.loads(answer)["error"]
    headers |= {"upload-offset": "0", "content-length": DIGITS}  # what came counts
    assert walk.ask("PATCH", url, b"abc", headers)[0] == 204


def test_no_malformed_socket_fails(app: Starlette, loop: asyncio.AbstractEventLoop) -> None:
    """Sockets end with a close code, never with an exception."""
    for route in [one for one in app.routes if isinstance(one, WebSocketRoute)]:
        for name in ("run", "watch", "what", "layer", "head", "reports"):
            for text in BAD_TEXTS:
                target = f"{route.path}?{_query({'run': 'job', name: text})}"
                loop.run_until_complete(_opened(app, target))


async def _opened(app: Starlette, target: str) -> None:
    """Open a socket, say something malformed, and leave."""
    scope = Client(app).scope("websocket", target, {}) | {"subprotocols": []}
    messages: list[Message] = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": f"drawn {DIGITS}"},
        {"type": "websocket.disconnect", "code": 1000},
    ]
    has_left = False

    async def receive() -> Message:
        nonlocal has_left
        has_left = len(messages) == 1
        return messages.pop(0) if len(messages) > 1 else messages[0]

    async def send(_message: Message) -> None:
        if has_left:
            raise OSError("the browser has left")

    try:
        await asyncio.wait_for(app(scope, receive, send), 30)
    except Exception as error:
        raise AssertionError(target[:300]) from error

"""Answers that are the same for everybody are cached as they are sent; nothing else is."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.routes.live.status import _free_number
from app.runs.hub import Hub
from app.web import page_cache
from app.web.page_cache import PageCache
from tests.app.server.asgi import Answer, Client
from tests.runs_builder import two_rank_run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("runs")
    two_rank_run(runs / "job", num_steps=40)
    opened = Hub(runs)
    opened.run("job")
    yield opened
    opened.close()


def plain(answer: Answer) -> bytes:
    packed = answer.headers.get("content-encoding") == "gzip"
    return gzip.decompress(answer.body) if packed else answer.body


def test_the_page_and_its_scripts_are_the_same_twice_compressed_or_not(client: Client) -> None:
    frame = client.get("/run/job/overview")
    assert frame.status == 200
    scripts = re.findall(r'src="(/_dash-component-suites[^"]+)"', plain(frame).decode())
    assert len(scripts) > 4
    for path in ("/", *scripts, "/_dash-layout", "/_dash-dependencies"):
        first = client.get(path, **{"accept-encoding": "gzip"})
        again = client.get(path, **{"accept-encoding": "gzip"})
        bare = client.get(path, **{"accept-encoding": "identity"})
        assert first.status == again.status == bare.status == 200
        assert "content-encoding" not in bare.headers
        assert plain(first) == plain(again) == bare.body
        assert first.headers["vary"] == "Accept-Encoding"
        assert bare.headers["content-type"] == first.headers["content-type"]
    assert "max-age" in client.get(scripts[0]).headers["cache-control"]
    assert client.get("/").headers["cache-control"] == "no-cache"


class Counted:
    """An app that counts what reaches it."""

    def __init__(self, status: int = 200) -> None:
        self.paths: list[str] = []
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        start: Message = {"type": "http.response.start", "status": self.status, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})


def test_only_answers_that_are_the_same_for_everybody_are_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Counted()
    client = Client(PageCache(app))
    script = "/_dash-component-suites/dash/a.js"
    for path in (script, script, "/run/a/ranks", "/run/b/query", "/_dash-update-component"):
        assert client.get(path).body == b"ab"
    client.get("/_dash-update-component")
    client.post("/run/a/ranks")
    assert app.paths == [
        script,
        "/run/a/ranks",
        "/_dash-update-component",
        "/_dash-update-component",
        "/run/a/ranks",
    ]

    monkeypatch.setattr(page_cache, "MOST", 0)
    full = PageCache(app)
    app.paths.clear()
    for _ in range(2):
        assert Client(full).get(script).body == b"ab"
    assert app.paths == [script, script]


def test_a_failure_is_passed_on_and_not_cached() -> None:
    app = Counted(404)
    client = Client(PageCache(app))
    for _ in range(2):
        answer = client.get("/_dash-component-suites/dash/none.js")
        assert (answer.status, answer.body) == (404, b"ab")
    assert len(app.paths) == 2


@pytest.mark.parametrize("path", ["nonsense/a.js", "dash/none.js"])
def test_a_missing_script_is_a_sentence(client: Client, path: str) -> None:
    answer = client.get(f"/_dash-component-suites/{path}")
    assert answer.status == 404
    assert b"no such script" in answer.body


def test_answers_of_a_run_are_the_same_cached_compressed_or_not(client: Client) -> None:
    for path in ("strip", "findings", "ranks/layout", "ranks/grid", "ranks/heat", "timeline"):
        address = f"/api/run/job/{path}"
        answers = [
            client.get(address, **{"accept-encoding": how}) for how in ("gzip", "gzip", "br")
        ]
        assert [answer.status for answer in answers] == [200] * 3
        assert len({plain(answer) for answer in answers}) == 1
        assert "content-encoding" not in answers[2].headers
    assert client.get("/api/run/job/ranks/heat?metric=nonsense").status == 400
    assert client.get("/api/run/nobody/strip").status == 400


def test_each_socket_gets_the_first_free_number() -> None:
    taken: set[int] = set()
    with _free_number(taken) as first, _free_number(taken) as second:
        assert (first, second) == (0, 1)
        with _free_number(taken) as third:
            assert third == 2
        with _free_number(taken) as again:
            assert again == 2
    assert not taken

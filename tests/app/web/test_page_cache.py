"""What is answered alike to everybody is made once, and as it is sent; nothing else is kept."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.routes.live.status import _place
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.web import page_cache
from app.web.page_cache import KeptPages
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


@pytest.fixture(scope="module")
def client(hub: Hub) -> Client:
    return Client(make_app(hub, settings=Settings()))


def plain(answer: Answer) -> bytes:
    packed = answer.headers.get("content-encoding") == "gzip"
    return gzip.decompress(answer.body) if packed else answer.body


def test_the_frame_and_its_scripts_are_the_same_twice_packed_or_not(client: Client) -> None:
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
        self.asked: list[str] = []
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        start: Message = {"type": "http.response.start", "status": self.status, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})


def test_only_what_is_alike_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Counted()
    client = Client(KeptPages(app))
    script = "/_dash-component-suites/dash/a.js"
    for path in (script, script, "/run/a/ranks", "/run/b/query", "/_dash-update-component"):
        assert client.get(path).body == b"ab"
    client.get("/_dash-update-component")
    client.post("/run/a/ranks")
    assert app.asked == [
        script,
        "/run/a/ranks",
        "/_dash-update-component",
        "/_dash-update-component",
        "/run/a/ranks",
    ]

    monkeypatch.setattr(page_cache, "MOST", 0)
    full = KeptPages(app)
    app.asked.clear()
    for _ in range(2):
        assert Client(full).get(script).body == b"ab"
    assert app.asked == [script, script]


def test_a_failure_is_handed_on_and_not_kept() -> None:
    app = Counted(404)
    client = Client(KeptPages(app))
    for _ in range(2):
        answer = client.get("/_dash-component-suites/dash/none.js")
        assert (answer.status, answer.body) == (404, b"ab")
    assert len(app.asked) == 2


@pytest.mark.parametrize("path", ["nonsense/a.js", "dash/none.js"])
def test_a_script_that_is_not_there_is_a_sentence(client: Client, path: str) -> None:
    answer = client.get(f"/_dash-component-suites/{path}")
    assert answer.status == 404
    assert b"no such script" in answer.body


def test_answers_of_a_run_are_the_same_kept_packed_or_not(client: Client) -> None:
    for path in ("strip", "findings", "ranks/layout", "ranks/grid", "ranks/heat", "timeline"):
        address = f"/api/run/job/{path}"
        asked = [client.get(address, **{"accept-encoding": how}) for how in ("gzip", "gzip", "br")]
        assert [answer.status for answer in asked] == [200] * 3
        assert len({plain(answer) for answer in asked}) == 1
        assert "content-encoding" not in asked[2].headers
    assert client.get("/api/run/job/ranks/heat?metric=nonsense").status == 400
    assert client.get("/api/run/nobody/strip").status == 400


def test_each_socket_has_a_place_of_its_own_the_first_that_is_free() -> None:
    taken: set[int] = set()
    with _place(taken) as first, _place(taken) as second:
        assert (first, second) == (0, 1)
        with _place(taken) as third:
            assert third == 2
        with _place(taken) as again:
            assert again == 2
    assert not taken

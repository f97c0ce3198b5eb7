"""What strangers choose (paths, names, attempts) becomes no key that is kept for good."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator

import pytest
from starlette.types import ASGIApp

from app.runs.answer_store import MOST_ANSWERS
from app.runs.hub import Hub
from app.runs.policies import STALE_WHILE_REVALIDATE
from app.runs.revalidation import MOST_KEYS
from app.server import make_app
from app.settings import Settings
from app.web.assets import assets_version
from app.web.page_cache import MOST, PageCache
from ingest.run import Run
from ingest.stopping import Stop
from tests.app.one_run import hub_of_one_run
from tests.app.server.asgi import Client

WARM, NUM = 600, 500
"""Requests that fill what is bounded, then those that must add nothing to it."""
MOST_BYTES_EACH = 80
"""Below the shortest dictionary entry with its key."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of_one_run(tmp_path_factory.mktemp("runs")) as hub:
        yield hub


@pytest.fixture(scope="module")
def app(hub: Hub) -> ASGIApp:
    return make_app(hub, settings=Settings())


def grown_bytes(request: Callable[[int], Awaitable[None]], first: int = 0) -> int:
    """Memory that NUM requests have added for good, after WARM others."""

    async def all_of(begin: int, number: int) -> None:
        for n in range(first + begin, first + begin + number):
            await request(n)

    async def measured() -> int:
        await all_of(0, WARM)
        gc.collect()
        tracemalloc.start()
        try:
            await all_of(WARM, 200)  # what is kept of any request, whatever it is
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await all_of(WARM + 200, NUM)
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

    return asyncio.run(measured())


NO_CALLBACK = b'{"output": "o%d.children", "inputs": [], "changedPropIds": []}'
WAYS: dict[str, tuple[str, str, str, bytes]] = {
    "a path of Dash": ("GET", "/_dash-%d", "", b""),
    "a script": ("GET", "/_dash-component-suites/dash/deps/n%d.js", "", b""),
    "a run": ("GET", "/api/run/job%d/findings", "", b""),
    "a version of an asset": ("GET", "/assets/%d/main.mjs", "", b""),
    "an asset's other name": ("GET", "/assets/VERSION/x%d/../main.mjs", "", b""),
    "an upload": ("GET", "/api/uploads/%d", "", b""),
    "a job": ("GET", "/api/watch", "run=job%d", b""),
    "a metric": ("GET", "/api/run/job/ranks/grid", "metric=m%d", b""),
    "a callback": ("POST", "/_dash-update-component", "", NO_CALLBACK),
}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_hundreds_of_names_leave_memory_flat(way: str, app: ASGIApp) -> None:
    method, path, query, body = WAYS[way]
    path = path.replace("VERSION", assets_version())
    client = Client(app)

    def filled(text: str, n: int) -> str:
        return text % n if "%d" in text else text

    def request(n: int) -> Awaitable[None]:
        sent = body % n if b"%d" in body else body
        target = f"{filled(path, n)}?{filled(query, n)}" if query else filled(path, n)
        return client.exchange(method, target, sent, {"content-type": "application/json"})

    grown = grown_bytes(request)
    if grown > MOST_BYTES_EACH * NUM:  # a pass of the indexer may have fallen into it: once more
        grown = grown_bytes(request, 2 * NUM)
    assert grown < MOST_BYTES_EACH * NUM, f"{grown / NUM:.0f} bytes each"


def test_unknown_paths_share_one_label(app: ASGIApp) -> None:
    client = Client(app)
    for n in range(20):
        client.get(f"/_dash-{n}")
    client.get("/_dash-layout")
    labels = {
        line.split('"')[1] for line in client.get("/metrics").text.splitlines() if "{" in line
    }
    assert "_dash-layout" in labels
    assert not [label for label in labels if label.startswith("_dash-") and label[6:].isdecimal()]


def test_scripts_requested_under_many_names_do_not_crowd_out_the_others() -> None:
    requested: list[str] = []

    async def pages(scope: object, _receive: object, send: Callable[..., object]) -> None:
        requested.append(scope["path"])  # type: ignore[index]
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b"x"})  # type: ignore[misc]

    client = Client(PageCache(pages))  # type: ignore[arg-type]
    scripts = "/_dash-component-suites/dash/dcc"
    for name in [f"w{n}" for n in range(2 * MOST)] + [f"v{n}" for n in range(8)]:
        client.get(f"{scripts}.{name}.js")
    requested.clear()
    for n in range(8):
        client.get(f"{scripts}.v{n}.js")
    assert requested == []
    assert len(client.app._cached) == MOST  # type: ignore[attr-defined]


def test_rates_of_answers_that_nobody_asks_for_any_more_go(hub: Hub) -> None:
    def diagnosis(attempt: int, value: int) -> int:
        key = ("diagnosis", attempt)
        return hub.cache.get("job", key, lambda _run, _stop: value, STALE_WHILE_REVALIDATE)

    for attempt in range(NUM):
        diagnosis(attempt, 0)
    assert len(hub._opened["job"].revalidations) == MOST_KEYS
    assert diagnosis(NUM - 1, 1) == 0
    assert diagnosis(0, 2) in (0, 2)


def test_long_addresses_count_as_part_of_the_bound(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of 60,000 characters is more than most answers."""
    hub.cache.forget(hub._opened["job"])
    monkeypatch.setattr(hub.cache._store, "most_bytes", 10 << 20)

    def nothing(_run: Run, _stop: Stop | None) -> int:
        return 0

    for n in range(1_000):
        hub.cache.get("job", ("timeline", f"{n}".rjust(60_000)), nothing)
    assert len(hub.cache) < 200
    assert hub.cache.num_bytes <= 10 << 20
    assert MOST_ANSWERS == 4096
    hub.cache.forget(hub._opened["job"])

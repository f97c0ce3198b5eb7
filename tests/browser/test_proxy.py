"""Behind a reverse proxy with a path prefix, whether or not it takes the prefix off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.settings import Settings
from app.view_state import PAGE_NAMES, View
from tests.app.server.served import served
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.proxy import Proxy

PREFIX = "/user/me/proxy/8050"


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Proxy]]:
    """Two before a server that knows its prefix: one strips the prefix, one keeps it."""
    runs = tmp_path_factory.mktemp("prefixed")
    runs_made.recorded(runs, "slow_rank")
    with (
        served(runs, Settings(port=0, base=PREFIX)) as server,
        Proxy(PREFIX, server.port, strips=True) as strips,
        Proxy(PREFIX, server.port, strips=False) as keeps,
    ):
        yield {"strips": strips, "keeps": keeps}


NOT_RECORDED = ("model", "selftest")
"""Pages without a tab in a run of steps alone."""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["strips", "keeps"])
def test_every_page_and_the_live_socket(
    proxies: dict[str, Proxy], tabs: OpenTab, kind: str
) -> None:
    proxy = proxies[kind]
    tab = tabs(proxy.url)
    urls: list[str] = []
    sockets: list[str] = []
    tab.page.on("request", lambda request: urls.append(request.url))
    tab.page.on("websocket", lambda socket: sockets.append(socket.url))
    tab.open()
    tab.page.get_by_role("link", name="slow_rank").first.click()
    tab.page.wait_for_url(f"{proxy.url}/run/slow_rank/overview")
    for page in (page for page in PAGE_NAMES if page not in NOT_RECORDED):
        tab.page.locator(f'.topbar a[data-page="{page}"]').click()
        tab.page.wait_for_url(f"{proxy.url}{View('slow_rank', page).url()}*")
        tab.settle()
    assert [url for url in urls if not url.startswith(("data:", "blob:", proxy.url))] == []
    assert sockets
    assert all(url.startswith(proxy.url.replace("http:", "ws:")) for url in sockets)
    state = tab.page.locator(".topbar .state").inner_text()  # it came by the socket
    assert state.strip().startswith("ended")
    tab.go_away()


@pytest.mark.long
def test_a_link_made_behind_the_proxy_opens_there(proxies: dict[str, Proxy], tabs: OpenTab) -> None:
    proxy = proxies["strips"]
    first = tabs(proxy.url)
    first.open(View("slow_rank", "timeline", rank=5, steps=(6, 8)).url())
    link: str = first.page.evaluate("window.rankscope.link()")
    assert link.startswith(f"{proxy.url}/run/slow_rank/timeline?")
    second = tabs(proxy.url)
    second.open(link.removeprefix(proxy.url))
    assert second.view()["rank"] == 5
    assert second.view()["steps"] == [6, 8]
    for tab in (first, second):
        tab.go_away()

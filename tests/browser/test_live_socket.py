"""The live socket in a real tab: it sleeps with the tab; a run that comes up opens by itself; and a
link that was sent opens at whoever has the token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import WebSocket

from app.settings import Settings, Token
from app.view_state import View
from tests.app.server.served import Served, served
from tests.browser.conftest import OpenTab
from tests.browser.support.other_site import OtherSite, other_site
from tests.browser.support.tabs import Tab
from tests.runs_builder import RunBuilder, two_rank_run

SECRET = "correct-horse-battery"
HIDE = """(hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
COUNT_NEWS = """() => {
    window.news = [];
    window.rankscope.addEventListener('run', (event) => window.news.push(event.detail.last_step));
}"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, Settings(port=0)) as running_one:
        yield running_one


def received_steps(tab: Tab) -> list[int | None]:
    """Newest steps in the messages of the page's sockets, as they come; call it before it opens."""
    steps: list[int | None] = []

    def note(socket: WebSocket) -> None:
        socket.on("framereceived", lambda text: steps.append(json.loads(text).get("last_step")))

    tab.listen("websocket", note)
    return steps


def following(
    server: Served, tabs: OpenTab, runs: Path
) -> tuple[RunBuilder, Tab, list[int | None]]:
    """A run, a tab whose socket is connected to it, and what that hears."""
    run = two_rank_run(runs / "job")
    tab = tabs(f"http://{server.address}")
    steps = received_steps(tab)
    tab.open(View("job", "query").url())
    tab.wait_for("window.rankscope.live.connected")
    return run, tab, steps


@pytest.mark.long
def test_a_hidden_tab_has_no_socket_and_catches_up_when_it_returns(
    server: Served, tabs: OpenTab, tmp_path: Path
) -> None:
    run, tab, steps = following(server, tabs, tmp_path)
    tab.page.evaluate(COUNT_NEWS)
    tab.page.evaluate(HIDE, True)
    tab.wait_for("!window.rankscope.live.connected")
    run.step(0, 3, 300, 400)
    run.publish()
    assert server.hub.catch_up("job", 10)
    tab.page.wait_for_timeout(500)  # longer than news take to a page that has a socket
    assert 3 not in steps
    assert tab.page.evaluate("window.news") == []
    tab.page.evaluate(HIDE, False)
    tab.wait_for("window.news.at(-1) === 3")
    tab.go_away()


@pytest.mark.long
def test_a_paused_page_holds_still_and_goes_on_from_the_newest(
    server: Served, tabs: OpenTab, tmp_path: Path
) -> None:
    run, tab, steps = following(server, tabs, tmp_path)
    tab.settle()
    tab.page.evaluate(COUNT_NEWS)
    tab.page.evaluate("window.rankscope.live.pause()")
    for step in (3, 4):
        run.step(0, step, step * 100, step * 100 + 100)
        run.publish()
        assert server.hub.catch_up("job", 10)
    while steps.count(4) < 2:  # the second time the page has long had the first
        tab.page.wait_for_timeout(50)
    assert tab.page.evaluate("window.news") == []
    tab.page.evaluate("window.rankscope.live.resume()")
    tab.wait_for("window.news.at(-1) === 4")
    assert tab.page.evaluate("window.news") == [4]
    tab.go_away()


def test_a_run_that_comes_up_opens_by_itself(server: Served, tabs: OpenTab, tmp_path: Path) -> None:
    server.hub.expect("job", "the ranks come up; this page opens automatically")
    tab = tabs(f"http://{server.address}")
    tab.problems.allow("status 400")
    tab.problems.allow("Bad Request")
    tab.open(View("job", "query").url())
    tab.page.get_by_text("the ranks come up").first.wait_for()
    two_rank_run(tmp_path / "job")
    tab.page.get_by_text("the ranks come up").first.wait_for(state="hidden")
    tab.wait_for("window.rankscope?.live?.connected")  # the page is loaded again, perhaps twice
    assert tab.page.url.endswith("/run/job/query")
    tab.go_away()


@pytest.fixture
def elsewhere() -> Iterator[OtherSite]:
    """A site with links in it, such as a chat."""
    with other_site() as site:
        yield site


@pytest.mark.long
def test_a_link_in_a_chat_opens_with_the_token_given_once(
    tabs: OpenTab, tmp_path: Path, elsewhere: OtherSite
) -> None:
    two_rank_run(tmp_path / "job")
    with served(tmp_path, Settings(port=0, tokens=(Token(SECRET),))) as server:
        target = f"http://{server.address}/run/job/query?rank=1"
        elsewhere.pages["/"] = f'<a href="{target}">look at rank 1</a>'
        tab = tabs(f"http://{server.address}")
        tab.problems.allow("401")
        chat = f"http://localhost:{elsewhere.port}/"
        tab.page.goto(chat)  # localhost and 127.0.0.1 are two sites
        tab.page.get_by_role("link").click()
        tab.page.get_by_label("Token").fill(SECRET)
        tab.page.get_by_role("button", name="Open").click()
        tab.page.wait_for_selector("#page:not(.loading)")
        assert tab.page.url == target  # without the token
        tab.wait_for("window.rankscope.live.connected")
        tab.settle()
        tab.page.goto(chat)
        tab.page.get_by_role("link").click()  # the strict cookie does not come along
        tab.page.wait_for_selector("#page:not(.loading)")
        assert tab.page.url == target
        tab.go_away()

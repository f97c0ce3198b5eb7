"""A server that dies under open pages and comes back; a rebuilt index."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings
from app.view_state import View
from benchmarks.browser import Server
from tests.app.server.served import served
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.cutting import CutLine
from tests.browser.support.replaying import news, replayed
from tests.browser.support.tabs import Tab

CUT_OFF = (
    "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_SOCKET_NOT_CONNECTED|ERR_EMPTY_RESPONSE"
    "|WebSocket connection|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONTENT_LENGTH_MISMATCH"
    "|Failed to fetch|Callback failed: the server did not respond"
)
"""What the browser logs about a server that is not there."""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that may be killed, without a run so far."""
    runs = tmp_path / "runs"
    runs.mkdir()
    server = Server(runs).start()
    yield server
    server.stop()


def connected(tab: Tab, wanted: bool) -> None:
    """Wait until the page's live socket is there, or is known to be gone.

    A page that is being reloaded has no `rankscope` for a moment.
    """
    tab.wait_for(f"window.rankscope?.live.connected === {str(wanted).lower()}")


def top_bar(tab: Tab) -> str:
    return tab.page.locator(".topbar").inner_text().lower()


@pytest.mark.long
def test_the_page_goes_on_by_itself_after_the_server_came_back(
    own_server: Server, tabs: OpenTab
) -> None:
    with replayed(own_server.runs, "live") as live:
        tab = tabs(own_server.url)
        tab.problems.allow(CUT_OFF)
        tab.open(View(live, "timeline").url())
        connected(tab, True)
        tab.page.wait_for_selector(".tl-legend .swatch")  # the first tile has been drawn
        own_server.kill()
        connected(tab, False)
        assert "reconnecting" in top_bar(tab)
        own_server.start()
        connected(tab, True)
        assert news(tab, 1)[0]["run"] == live
        assert tab.view()["page"] == "timeline"
        assert "reconnecting" not in top_bar(tab)


@pytest.mark.long
def test_a_page_requested_without_a_server_opens_later(server: Server, tabs: OpenTab) -> None:
    with CutLine(server.port) as line:
        tab = tabs(line.url)
        tab.problems.allow(CUT_OFF)
        tab.open(View("slow_rank", "overview").url())
        tab.settle()
        line.is_down = line.stays_down = True
        line.cut()
        connected(tab, False)
        with tab.page.expect_event("requestfailed"):
            tab.page.locator('.topbar a[data-page="ranks"]').click()
        toast = tab.page.locator("#toast.shown").inner_text()
        assert toast == "The server cannot be reached; this page opens when it is back."
        line.is_down = False
        tab.page.wait_for_selector('.topbar a[data-page="ranks"][aria-current="page"]')
        tab.settle()
        tab.assert_sound()
        tab.go_away()


@pytest.mark.long
def test_a_link_shows_the_same_after_the_index_was_rebuilt(tabs: OpenTab, tmp_path: Path) -> None:
    runs_made.recorded(tmp_path, "slow_rank")
    before = shown(tabs, tmp_path)
    shutil.rmtree(tmp_path / "slow_rank" / "index")
    assert shown(tabs, tmp_path) == before


def shown(tabs: OpenTab, runs: Path) -> tuple[object, str]:
    """View state and text of a link's page, from a server and in a profile of its own."""
    link = View("slow_rank", "timeline", rank=5, ranks=(4, 5, 6), steps=(7, 8)).url()
    with served(runs, Settings(port=0)) as server:
        tab = tabs(f"http://{server.address}")
        tab.open(link)
        tab.settle()
        seen = tab.view(), tab.page.locator("#page").inner_text()
        tab.go_away()
    return seen

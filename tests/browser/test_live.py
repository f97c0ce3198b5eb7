"""A run that is written while one looks; a server that dies and comes back; an index made anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.links import PAGES, View
from benchmarks.browser import Server
from tests.browser import runs_made
from tests.browser.conftest import OpenTab, replayed
from tests.browser.tabs import Tab

CUT_OFF = (
    "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|WebSocket connection"
    "|ERR_INCOMPLETE_CHUNKED_ENCODING|Failed to fetch"
    "|Callback failed: the server did not respond"
)
"""What the browser says of a server that is not there."""

NEWS = """(count) => new Promise((done, fail) => {
    const told = [];
    const timer = setTimeout(() => fail(new Error(`only ${told.length} news`)), 15000);
    window.rankscope.addEventListener('run', (event) => {
        if (told.length && event.detail.version === told.at(-1).version) return;  // its state alone
        told.push(event.detail);
        if (told.length === count) { clearTimeout(timer); done(told); }
    });
})"""


@pytest.mark.parametrize("page", PAGES)
def test_pages_follow_a_run_that_is_written(tab: Tab, live_run: str, page: str) -> None:
    tab.open(View(live_run, page).url())
    first, second = tab.page.evaluate(NEWS, 2)
    assert second["run"] == live_run
    assert second["version"] > first["version"]
    assert second["last_step"] >= first["last_step"]
    tab.page.wait_for_selector(".topbar .state.running")
    tab.page.wait_for_timeout(500)
    tab.assert_sound()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that may be killed; `live` is being written, `slow_rank` has ended."""
    runs = tmp_path / "runs"
    runs.mkdir()
    runs_made.recorded(runs, "slow_rank")
    server = Server(runs).start()
    yield server
    server.stop()


def connected(tab: Tab, wanted: bool) -> None:
    """Wait until the page's live socket is there, or is known to be gone.

    A page that is being loaded anew has no `rankscope` for a moment.
    """
    tab.wait_for(f"window.rankscope?.live.connected === {str(wanted).lower()}")


def test_the_page_goes_on_by_itself_after_the_server_came_back(
    tabs: OpenTab, own_server: Server
) -> None:
    job = replayed(own_server.runs, "live")
    live = next(job)
    tab = tabs(own_server.url)
    tab.problems.allow(CUT_OFF)
    tab.open(View(live, "timeline").url())
    connected(tab, True)
    tab.page.wait_for_selector(".tl-legend .swatch")  # the first tile has been drawn
    own_server.kill()
    connected(tab, False)
    assert "reconnecting" in tab.page.locator(".topbar").inner_text().lower()
    own_server.start()
    connected(tab, True)
    assert tab.page.evaluate(NEWS, 1)[0]["run"] == live
    assert tab.view()["page"] == "timeline"
    assert "reconnecting" not in tab.page.locator(".topbar").inner_text().lower()
    job.close()


def test_a_page_asked_for_without_a_server_says_so(tabs: OpenTab, own_server: Server) -> None:
    tab = tabs(own_server.url)
    tab.problems.allow(CUT_OFF)
    tab.open(View("slow_rank", "overview").url())
    tab.settle()
    own_server.kill()
    tab.page.locator('.topbar a[data-page="timeline"]').click()
    tab.page.wait_for_timeout(1000)
    own_server.start()
    connected(tab, True)
    tab.page.locator('.topbar a[data-page="ranks"]').click()
    tab.page.wait_for_selector('.topbar a[data-page="ranks"][aria-current="page"]')
    tab.settle()
    tab.assert_sound()


def test_a_link_shows_the_same_after_the_index_was_made_anew(
    tabs: OpenTab, own_server: Server
) -> None:
    link = View("slow_rank", "timeline", rank=5, ranks=(4, 5, 6), steps=(7, 8)).url()
    tab = tabs(own_server.url)
    tab.problems.allow(CUT_OFF)
    before = shown(tab, link)
    assert own_server.stop() == 0
    shutil.rmtree(own_server.runs / "slow_rank" / "index")
    own_server.start()
    assert shown(tabs(own_server.url), link) == before


def shown(tab: Tab, link: str) -> tuple[object, str]:
    """View state and text of a link's page, opened in a fresh profile."""
    tab.open(link)
    tab.settle()
    return tab.view(), tab.page.locator("#page").inner_text()

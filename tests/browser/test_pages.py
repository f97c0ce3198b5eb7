"""Every page on every kind of run, in both themes, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.view_state import PAGE_NAMES, View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab


@pytest.mark.sampled
@pytest.mark.parametrize("page", PAGE_NAMES)
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_recorded_run(tabs: OpenTab, server: Server, page: str, size: tuple[int, int]) -> None:
    tab = tabs(server.url, "dark", size)
    tab.open(View("slow_rank", page).url())
    for theme in ("dark", "light"):
        tab.page.emulate_media(color_scheme=theme)
        tab.wait_for(f"document.documentElement.dataset.theme === '{theme}'")
        tab.settle()
        tab.assert_sound()
    assert tab.page.locator('.topbar a[aria-current="page"]').inner_text().lower() == page


def assert_every_page_sound(tab: Tab, run: str) -> Iterator[str]:
    """Go from page to page, as the links in the top bar do; yields each page once it is drawn."""
    tab.open(View(run).url())
    for page in PAGE_NAMES:
        tab.turn_to(page)
        tab.settle()
        tab.assert_sound()
        yield page


@pytest.mark.long
def test_an_imported_run(tab: Tab, imported_run: str) -> None:
    assert tuple(assert_every_page_sound(tab, imported_run)) == PAGE_NAMES


def test_a_job_that_has_written_nothing_yet(tab: Tab) -> None:
    wanted = {
        "overview": "no step is finished yet",
        "timeline": "nothing yet",
        "ranks": "no finished step yet",
        "machines": "no sample of a machine is recorded",
        "data": "no batch was recorded yet",
        "experts": "no load of experts is recorded",
        "query": "no rows",
        "what-if": "no step is finished",
        "efficiency": "no step is finished yet",
        "model": "this job records no statistics",
        "stuck": "nothing is stuck",
        "selftest": "no self-test was run",
    }
    for page in assert_every_page_sound(tab, runs_made.EMPTY):
        assert page in wanted, f"add to `wanted` what the page {page} shows of such a job"
        assert wanted[page] in tab.page.locator("#page").inner_text().lower()


@pytest.mark.long
def test_names_of_a_run_are_text_never_markup(tab: Tab) -> None:
    for page in assert_every_page_sound(tab, runs_made.HOSTILE):
        assert runs_made.HOSTILE in tab.page.locator(".topbar").inner_text(), page
        assert tab.page.locator("[onclick], [onerror], #page script").count() == 0, page


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_list_of_runs(tabs: OpenTab, server: Server, theme: str) -> None:
    tab = tabs(server.url, theme)
    tab.open()
    tab.settle()
    tab.assert_sound()
    text = tab.page.locator("#page").inner_text()
    assert "slow_rank" in text
    assert runs_made.HOSTILE in text
    assert tab.page.locator("[onclick], [onerror], #page script").count() == 0
    tab.page.get_by_role("link", name="slow_rank").first.click()
    tab.page.wait_for_url("**/run/slow_rank/overview")


def test_no_column_of_the_runs_is_cut_off(tab: Tab) -> None:
    tab.open()
    tab.page.wait_for_selector("td.column-layout")
    tab.wait_for("!document.querySelector('tr[data-state=indexing]')")
    tab.settle()
    wide = {
        "a[data-run]": "pipeline-with-a-slow-worker-of-4096",
        "td.run-findings": "Garbage collections stop one rank after the other +1",
        "td.column-layout": "pp 8 x dp 128 x tp 8",
        "td.column-ranks": "8,192 / 8,192",
        "td.column-steps": "0 – 1,021,000",
    }
    tab.page.evaluate(
        """(wide) => Object.entries(wide).forEach(([cells, text]) =>
            document.querySelectorAll(cells).forEach((cell) => { cell.textContent = text; }))""",
        wide,
    )
    table = tab.page.locator(".runs .scroll")
    assert table.evaluate("(box) => box.scrollWidth <= box.clientWidth")


def test_an_unknown_run_is_explained(tab: Tab) -> None:
    tab.open("/run/nobody/timeline")
    assert "there is no run 'nobody'" in tab.page.locator("#page").inner_text()
    tab.page.get_by_role("link", name="All runs").click()
    tab.page.wait_for_selector("text=slow_rank")


def test_a_damaged_field_of_a_link_falls_back_alone(tab: Tab) -> None:
    tab.open("/run/slow_rank/timeline?rank=5&t=x..y&steps=2..4")
    assert "The link's field t cannot be used" in tab.page.locator("#page").inner_text()
    view = tab.view()
    assert (view["rank"], view["steps"], view["t"]) == (5, [2, 4], None)

"""The panel about a run: correcting its layout by hand, seen at once by everybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.analysis.imports import import_paths
from app.view_state import View
from benchmarks.browser import Server
from tests.app.analysis.test_imports import DP_TP, write_job
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab


@pytest.fixture(scope="module")
def eight(runs: Path) -> str:
    """Name of an import of eight ranks whose layout is in no file."""
    job = write_job(
        runs.parent / "job", DP_TP, ranks=list(range(8)), world_size=8, num_steps=8, slow_rank=5
    )
    return runs_made.indexed(import_paths([job], runs, name="eight"))


@pytest.fixture(scope="module")
def two(runs: Path) -> str:
    """Name of an import of two ranks of 128 that no complete group connects."""
    groups = [list(range(128)), [0, 64], [64, 65]]
    job = write_job(runs.parent / "two", groups, ranks=[0, 65], world_size=128, slow_rank=65)
    return runs_made.indexed(import_paths([job], runs, name="two"))


def open_form(tab: Tab, name: str) -> None:
    tab.open(View(name).url())
    tab.page.locator(".about-run > details > summary").press("Enter")
    tab.page.locator('[data-part="layout"] > summary').press("Enter")
    tab.page.wait_for_selector(".layout-form .sum:not(:empty)")


@pytest.mark.long
def test_a_layout_is_corrected_by_keys_and_other_tabs_follow(
    tabs: OpenTab, server: Server, eight: str
) -> None:
    other = tabs(server.url, "light")
    other.open(View(eight).url())
    assert "layout unknown" in other.page.locator(".about-run summary").first.inner_text()
    tab = tabs(server.url)
    open_form(tab, eight)
    page, note = tab.page, tab.page.locator(".layout-form .message")
    assert page.locator(".layout-form .sum").inner_text() == "1 of 8 ranks"
    assert page.locator(".layout-form .primary").is_disabled()
    page.locator(".layout-form [name=tp]").fill("2")
    page.locator(".layout-form [name=dp]").fill("4")
    page.wait_for_selector(".layout-form .primary:enabled")
    assert "6 run along no axis" in note.inner_text()
    page.locator(".layout-form [name=tp]").fill("4")
    assert page.locator(".layout-form .primary").is_disabled()
    assert "must multiply to the 8 ranks" in note.inner_text()
    page.locator(".layout-form [name=dp]").fill("2")
    page.wait_for_selector(".layout-form .primary:enabled")
    assert note.inner_text() == "The recorded process groups fit: 4 along dp, 2 along tp."
    assert page.locator(".layout-form .preview tr").nth(1).inner_text().split() == [
        "dp",
        "0",
        "0",
        "0",
        "0",
        "1",
        "1",
        "1",
        "1",
    ]
    page.keyboard.press("Enter")  # in a field: sends the form
    for one in (page, other.page):
        one.wait_for_selector('.about-run summary:has-text("dp 2 x tp 4, corrected by hand")')
        one.wait_for_selector('.topbar .layout:has-text("dp 2 tp 4")')
    assert page.locator('[data-part="layout"]').get_attribute("open") is not None
    tab.wait_for("document.activeElement?.closest('[data-part=layout]') !== null")
    page.click(".layout-form >> text=Restore imported layout")
    page.wait_for_selector('.about-run summary:has-text("layout unknown")')
    other.page.wait_for_selector('.about-run summary:has-text("layout unknown")')


@pytest.mark.sampled
@pytest.mark.parametrize(("theme", "size"), [("dark", PHONE), ("light", DESKTOP)])
def test_panel_and_form_fit_the_window(
    tabs: OpenTab, server: Server, eight: str, theme: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, theme, size)
    open_form(tab, eight)
    tab.page.locator('[data-part="clocks"] > summary').press("Enter")
    assert tab.page.locator('[data-part="clocks"] tbody tr').count() == 8
    tab.settle()
    tab.assert_sound()


@pytest.mark.long
def test_two_ranks_of_128_are_marked_as_unaligned_on_every_timeline(tab: Tab, two: str) -> None:
    for page in ("overview", "timeline"):
        tab.open(View(two, page).url())
        note = tab.page.locator("#clock-note .unaligned")
        assert "The clocks of the 2 ranks here are not aligned" in note.inner_text()
        tab.settle()
        assert tab.page.locator(".banner[data-finding]").count() == 0
        assert "waiting for rank" not in tab.page.locator("#page").inner_text()
    tab.assert_sound()

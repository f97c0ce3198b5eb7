"""The section MFU of the page Efficiency in a real browser: waterfall, decline, two windows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.mfu_runs import changed_run

SENTENCE = ".mfu-sentence"
ROWS = ".mfu-waterfall tbody tr"


@pytest.fixture(scope="module")
def declined(runs: Path) -> str:
    """Name of a run in which collections stop rank 1 for longer from step 120 on."""
    return runs_made.indexed(changed_run(runs / "declined", 200, 120, gc_ms=6))


def opened(tabs: OpenTab, server: Server, view: View, size: tuple[int, int] = DESKTOP) -> Tab:
    tab = tabs(server.url, "light", size)
    tab.open(view.url())
    tab.page.wait_for_selector(ROWS)
    tab.page.wait_for_selector(SENTENCE)
    tab.settle()
    return tab


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_parts_from_the_peak_down_to_the_mfu_and_since_when_more_is_lost(
    tabs: OpenTab, server: Server, declined: str, size: tuple[int, int]
) -> None:
    view = View(declined, "efficiency", steps=(130, 139), peak="1")
    tab = opened(tabs, server, view, size)
    titles = tab.page.locator(f"{ROWS} th").all_inner_texts()
    assert titles[0] == "Peak of the devices"
    assert titles[-1] == "MFU"
    waiting = tab.page.locator(ROWS).nth(titles.index("Waiting for other ranks"))
    assert waiting.locator("button").all_inner_texts() == ["step 130", "for rank 1"]
    said = tab.page.locator(SENTENCE).inner_text()
    assert "since step 120" in said
    assert "launch skew by garbage collections" in said
    assert tab.page.locator(".mfu-change td.is-slow").count() >= 3
    tab.assert_sound()


def test_a_peak_and_two_windows_are_in_the_address(
    tabs: OpenTab, server: Server, declined: str
) -> None:
    tab = opened(tabs, server, View(declined, "efficiency", steps=(130, 139)))
    assert "peak of the devices is not known" in tab.page.locator(".mfu-waterfall").inner_text()
    tab.page.fill(".mfu-fields input[name=peak]", "1")
    tab.page.keyboard.press("Enter")
    tab.wait_for("location.search.includes('peak=1')")
    tab.page.wait_for_selector(f"{ROWS} >> text=MFU")
    tab.page.fill(".mfu-fields input[name=first]", "10")
    tab.page.fill(".mfu-fields input[name=last]", "19")
    tab.page.get_by_role("button", name="Compare").click()
    tab.wait_for("location.search.includes('against=10..19')")
    tab.page.locator(SENTENCE, has_text="from steps 10 to 19").wait_for()
    tab.page.click("button[value=automatic]")
    tab.page.locator(SENTENCE, has_text="since step 120").wait_for()
    tab.wait_for("!location.search.includes('against')")
    tab.assert_sound()


def test_a_window_of_few_steps_is_a_sentence(tabs: OpenTab, server: Server, declined: str) -> None:
    tab = tabs(server.url, "dark")
    tab.problems.allow("400")
    tab.open(View(declined, "efficiency", steps=(130, 139), against=(0, 1)).url())
    tab.page.wait_for_selector(".mfu [role=alert]")
    assert "A window has 2 finished steps" in tab.page.locator(".mfu [role=alert]").inner_text()


def test_a_bar_leads_to_the_timeline(tabs: OpenTab, server: Server, declined: str) -> None:
    tab = opened(tabs, server, View(declined, "efficiency", steps=(130, 139)))
    tab.page.click(f"{ROWS} button[value='waiting 1']")
    tab.wait_for("location.pathname.endsWith('/timeline')")
    assert "rank=1" in tab.page.evaluate("location.search")


@pytest.mark.long
def test_the_shared_file_has_the_section(
    browser: Browser, server: Server, declined: str, tmp_path: Path
) -> None:
    view = View(declined, "efficiency", steps=(130, 139), peak="1")
    with closing(Hub(server.runs)) as hub:
        content = shared_file(hub, view).content
    (tmp_path / "shared.html").write_bytes(content)
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "shared.html").as_uri())
    page.wait_for_selector(f"#shared-mfu {ROWS}")
    page.locator(f"#shared-mfu {SENTENCE}", has_text="since step 120").wait_for()
    assert page.locator("#shared-mfu form").count() == 0
    assert problems == []
    context.close()

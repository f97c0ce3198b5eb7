"""The overview and the frame in a real browser: findings by key, the strip, links, the drawer."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support.tabs import PHONE, Tab

OVERVIEW = View("slow_rank").url()


def query(tab: Tab) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(tab.page.url).query).items()}


def banner_text(tab: Tab) -> str:
    return tab.page.locator("#banner-place .message").inner_text()


@pytest.mark.long
def test_the_banner_leads_to_the_waiting_lanes(tab: Tab) -> None:
    tab.open(OVERVIEW)
    slowdown = r"Rank 5 is slow\. Its compute takes 1\.[4-7]\dx as long as its peers' since step 5"
    assert re.match(slowdown, banner_text(tab))
    tab.page.click(".banner >> text=Show me")
    tab.page.wait_for_selector("#page .timeline-page canvas")
    assert query(tab)["ranks"] == "1,5,4,7"
    assert query(tab)["finding"].startswith("slow_worker-0-5-")
    assert tab.view()["rank"] == 5
    assert banner_text(tab).startswith("Rank 5 is slow.")  # who follows the link sees why
    tab.settle()
    assert tab.num_colours(tab.page.locator('[data-view="timeline"] canvas')) > 20
    tab.page.go_back()
    tab.page.wait_for_selector("#page .kpis")


@pytest.mark.long
def test_a_copied_link_opens_the_same_in_a_fresh_profile(tabs: OpenTab, server: Server) -> None:
    first = tabs(server.url)
    first.open(OVERVIEW)
    first.page.wait_for_selector(".banner")
    first.page.click(".topbar >> text=Copy link")
    first.page.wait_for_selector("#toast.shown")
    link = first.page.evaluate("navigator.clipboard.readText()")
    second = tabs(server.url, "light", PHONE)
    second.open(link.removeprefix(server.url))
    assert query(second)["attempt"] == "0"
    second.page.wait_for_selector(".banner")
    assert banner_text(second) == banner_text(first)
    second.assert_sound()


def test_dragging_over_the_strip_chooses_steps_for_every_view(tab: Tab) -> None:
    tab.open(OVERVIEW)
    strip = tab.page.locator(".strip canvas")
    tab.page.wait_for_selector('.strip canvas[aria-label^="Step times of steps 0 to"]')
    box = strip.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + 0.3 * box["width"], y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url("**steps=4..8**")
    tab.page.locator('[data-view="grid"]').get_by_text("steps 4 to 8").first.wait_for()
    strip.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Shift+ArrowRight")
    tab.page.wait_for_url("**steps=5..10**")
    tab.page.keyboard.press("Escape")
    tab.page.wait_for_function("!location.search.includes('steps')")
    assert "Step " in tab.page.locator(".strip table").inner_text()


def test_help_opens_and_closes(tab: Tab) -> None:
    tab.open(OVERVIEW)
    tab.page.wait_for_selector("#findings-button")
    tab.page.keyboard.press("?")
    help_dialog = tab.page.locator("#help-dialog")
    assert "next, previous finding" in help_dialog.inner_text()
    tab.page.keyboard.press("Escape")
    assert not help_dialog.is_visible()
    tab.page.keyboard.press("j")
    tab.page.wait_for_url("**finding=slow_worker-0-5-**")


def test_the_chart_is_loaded_when_it_comes_into_sight(tab: Tab) -> None:
    tab.open(OVERVIEW)
    tab.page.wait_for_selector("#page .kpis")
    tab.page.locator(".breakdown").scroll_into_view_if_needed()
    tab.page.wait_for_selector(".breakdown .js-plotly-plot .barlayer .trace")
    tab.page.click(".breakdown summary")
    assert "rank 5" in tab.page.locator(".breakdown table").inner_text()


COVERED = """() => [...document.querySelectorAll('.banner a, .banner button, .strip canvas')]
    .filter((e) => {
        const { x, y, width, height } = e.getBoundingClientRect();
        return [0.1, 0.9].some((at) => !e.contains(
            document.elementFromPoint(x + at * width, y + height / 2)));
    }).map((e) => e.outerHTML.slice(0, 120))"""


def test_the_open_drawer_covers_nothing_it_describes_and_gives_the_focus_back(
    tab: Tab,
) -> None:
    tab.open(OVERVIEW)
    tab.settle()
    tab.page.keyboard.press("e")
    tab.settle()
    drawer = tab.page.locator("#drawer")
    assert drawer.is_visible()
    assert tab.page.evaluate(COVERED) == []
    tab.assert_sound()
    assert "Rank 5 is slow" in drawer.inner_text()
    assert "Not excluded" in drawer.inner_text()
    tab.page.keyboard.press("Escape")
    assert not drawer.is_visible()
    assert tab.page.evaluate("document.activeElement.id") == "findings-button"


@pytest.mark.long
def test_from_the_small_timeline_to_the_whole_page_with_its_lanes(tab: Tab) -> None:
    tab.open(OVERVIEW)
    tab.settle()
    note = tab.page.locator("#overview-timeline .tl-note").inner_text()
    assert note.startswith("4 of 8 ranks")
    tab.page.click("#overview-timeline >> text=Open")
    tab.page.wait_for_selector(".timeline-page canvas")
    tab.settle()
    assert tab.page.locator(".timeline-page .tl-note").inner_text() == note
    assert query(tab)["ranks"] == "1,5,4,7"


def test_the_strip_as_a_table_and_by_keys(tab: Tab) -> None:
    tab.open(OVERVIEW)
    tab.settle()
    rows = tab.page.locator(".strip tr").all_inner_texts()
    assert len(rows) == 14
    assert [row.split(":")[0] for row in rows if "Rank 5 is slow" in row] == ["Step 5"]
    tab.page.locator(".strip canvas").focus()
    status = tab.page.locator(".strip [aria-live]")
    tab.page.keyboard.press("ArrowLeft")
    assert status.inner_text() == "Step 13 chosen"
    tab.page.keyboard.press("ArrowLeft")
    tab.page.keyboard.press("Shift+ArrowRight")
    assert status.inner_text() == "Steps 12 to 13 chosen"
    tab.page.keyboard.press("Escape")
    assert status.inner_text() == "All steps"

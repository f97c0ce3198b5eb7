"""What one does with the dashboard: select, follow a finding, zoom, brush, ask, switch."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator

from app.settings import Settings
from app.view_state import View
from benchmarks.browser import Server
from tests.app.server.served import served
from tests.browser.conftest import OpenTab
from tests.browser.support.tabs import PHONE, Tab
from tests.runs_builder import restarted_run


def place_of(tab: Tab, stage: Locator, rank: int) -> tuple[float, float]:
    """Where the mouse points at a rank of a grid, by the text of its tip; from below upwards."""
    box = stage.bounding_box()
    assert box is not None
    for up in range(1, 12):
        for right in range(4, 20):
            x, y = box["x"] + right * box["width"] / 24, box["y"] + box["height"] * (1 - up / 12)
            tab.page.mouse.move(x, y)
            if (
                stage.locator(".map-tip")
                .evaluate("tip => tip.innerText")
                .startswith(f"rank {rank}")
            ):
                return x, y
    raise AssertionError(f"rank {rank} is nowhere on the grid")


def test_clicking_a_rank_in_the_grid_selects_it_and_lights_its_groups(tab: Tab) -> None:
    tab.open(View("slow_rank", "ranks").url())
    tab.settle()
    stage = tab.page.locator('[data-view="grid"] .map-stage')
    place = place_of(tab, stage, 5)
    tab.page.mouse.move(1, 1)
    before = stage.screenshot()
    tab.page.mouse.click(*place)
    tab.page.wait_for_url(re.compile(r"[?&]rank=5\b"))
    tab.page.mouse.move(1, 1)
    assert tab.view()["rank"] == 5
    assert "rank 5" in str(stage.locator("canvas").first.get_attribute("aria-label"))
    lit = (
        tab.num_pixels(stage, "--tp"),
        tab.num_pixels(stage, "--pp"),
        tab.num_pixels(stage, "--dp"),
    )
    assert min(lit) > 5, lit
    assert stage.screenshot() != before


def test_the_grid_by_keys(tab: Tab) -> None:
    tab.open(View("slow_rank", "ranks", rank=4).url())
    tab.settle()
    tab.page.locator('[data-view="grid"] canvas').first.focus()
    tab.page.keyboard.press("Shift+ArrowRight")  # the other tensor-parallel rank
    assert tab.view()["rank"] == 5
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/run/slow_rank/timeline?*")
    assert tab.view()["rank"] == 5


def test_a_copied_link_opens_the_same_in_a_fresh_profile(tabs: OpenTab, server: Server) -> None:
    first = tabs(server.url)
    first.open(View("slow_rank", "timeline", rank=5).url())
    first.settle()
    canvas = '[data-view="timeline"] canvas'
    first.page.locator(canvas).click(position={"x": 600, "y": 5})
    for key in ("w", "w", "d"):
        first.page.keyboard.press(key)
    first.page.wait_for_url(re.compile(r"[?&]t=\d+\.\.\d+"))
    first.page.get_by_role("button", name="Copy link").first.click()
    link: str = first.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{server.url}/run/slow_rank/timeline?")
    second = tabs(server.url)
    second.open(link.removeprefix(server.url))
    for one in (first, second):
        one.settle()
        one.page.mouse.move(1, 1)
        one.page.wait_for_timeout(200)
    shared = {
        name: value for name, value in first.view().items() if name not in ("ranks", "attempt")
    }
    assert shared == {name: second.view()[name] for name in shared}
    assert second.page.locator(canvas).screenshot() == first.page.locator(canvas).screenshot()


@pytest.mark.long
def test_zooming_writes_the_window_and_back_takes_it_back(tab: Tab) -> None:
    tab.open(View("slow_rank", "timeline", steps=(6, 8)).url())
    tab.settle()
    canvas = tab.page.locator('[data-view="timeline"] canvas')
    wide = canvas.screenshot()
    canvas.focus()
    tab.page.keyboard.press("w")
    tab.page.wait_for_url(re.compile(r"[?&]t=\d+\.\.\d+"))
    tab.settle()
    assert canvas.screenshot() != wide
    first, last = tab.view()["t"]
    tab.page.keyboard.press("s")
    tab.page.wait_for_timeout(500)
    wider = tab.view()["t"]
    assert wider[1] - wider[0] > last - first


def test_dragging_over_the_timeline_sums_the_area(tab: Tab) -> None:
    tab.open(View("slow_rank", "timeline", steps=(7, 8)).url())
    tab.settle()
    box = tab.page.locator('[data-view="timeline"] canvas').bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 300, box["y"] + 80)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 700, box["y"] + 200, steps=5)
    tab.page.mouse.up()
    details = tab.page.get_by_label("Details")
    details.locator("td").first.wait_for()
    assert re.search(r"\d (ms|s) of \d lanes?", details.inner_text())
    assert "forward" in details.inner_text()


def test_a_slice_is_described(tab: Tab) -> None:
    tab.open(View("slow_rank", "timeline", ranks=(5,), steps=(7, 7)).url())
    tab.settle()
    canvas = tab.page.locator('[data-view="timeline"] canvas')
    box = canvas.bounding_box()
    assert box is not None
    panel = tab.page.get_by_label("Details")
    for x in range(200, int(box["width"]) - 40, 40):  # until the mouse meets one
        tab.page.mouse.click(box["x"] + x, box["y"] + 60)
        if panel.is_visible():
            break
    assert "Rank 5" in panel.inner_text()
    assert "step" in panel.inner_text().lower()


def test_the_table_of_ranks_sorts_and_selects(tab: Tab) -> None:
    tab.open(View("slow_rank", "ranks").url())
    tab.settle()
    table = tab.page.locator('[data-view="rank-table"] table')
    rows = table.locator("tbody tr")
    assert rows.count() == 8
    assert rows.first.inner_text().split()[0] == "5"  # the slowest comes first
    rows.nth(1).locator("td, th").nth(1).click()
    tab.wait_for("window.rankscope.view.rank !== null")


def test_a_saved_query_its_table_and_its_csv(tab: Tab) -> None:
    tab.open(View("slow_rank", "query", q="slowest_ranks").url())
    tab.page.wait_for_selector(".query-main table tbody tr")
    assert tab.page.locator(".query-main table tbody tr").first.inner_text().split()[0] == "5"
    with tab.page.expect_download() as waiting:
        tab.page.get_by_role("link", name=re.compile("CSV")).or_(
            tab.page.get_by_role("button", name=re.compile("CSV"))
        ).first.click()
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text())))
    assert rows[0]["rank"] == "5"


def test_sql_of_an_address_runs_when_somebody_presses_run(tab: Tab) -> None:
    urls = []
    tab.page.on("request", lambda request: urls.append(request.url))
    tab.open(View("slow_rank", "query", sql="SELECT 41 + 1 AS answer").url())
    tab.page.get_by_text("This SQL came with the link").wait_for()
    tab.page.wait_for_timeout(500)
    assert not [url for url in urls if "/api/" in url and "/query" in url]
    with tab.page.expect_response(re.compile(r"/query/ready\??$")) as ready:
        tab.page.get_by_label("SQL", exact=True).focus()  # somebody is about to run something
    assert ready.value.status == 204
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.page.locator(".answer-body").get_by_text("42").wait_for()
    with tab.page.expect_download() as waiting:
        tab.page.get_by_role("button", name="CSV").click()
    assert Path(waiting.value.path()).read_text().split() == ["answer", "42"]


def test_sql_that_is_wrong_or_forbidden_is_one_sentence(tab: Tab) -> None:
    tab.problems.allow("status 400|status of 400")
    for sql in ("SELEC 1", "COPY steps TO '/tmp/stolen'", "SELECT * FROM read_text('/etc/passwd')"):
        tab.open(View("slow_rank", "query", sql=sql).url())
        tab.page.get_by_text("This SQL came with the link").wait_for()
        tab.page.get_by_role("button", name="Run", exact=True).click()
        tab.page.wait_for_selector(".query-main .fault, .query-main .failed")
        text = tab.page.locator(".query-main").inner_text()
        assert "Traceback" not in text
        assert "root:" not in text
    assert not Path("/tmp/stolen").exists()


@pytest.mark.long
def test_the_theme_is_switched_and_remembered(tab: Tab) -> None:
    tab.open(View("slow_rank", "overview").url())
    tab.settle()
    banner = tab.page.locator(".banner")
    dark = banner.screenshot()
    tab.page.get_by_label("dark or light theme").click()
    assert tab.page.locator("html").get_attribute("data-theme") == "light"
    tab.page.wait_for_timeout(300)
    assert banner.screenshot() != dark
    assert tab.num_pixels(tab.page.locator("#kpi-place"), "--panel") > 10_000
    tab.page.reload()
    tab.page.wait_for_selector("#page:not(.loading)")
    assert tab.page.locator("html").get_attribute("data-theme") == "light"
    tab.settle()


@pytest.mark.sampled
@pytest.mark.parametrize("page", ["overview", "timeline"])
def test_a_shared_finding_on_a_phone(tabs: OpenTab, server: Server, page: str) -> None:
    tab = tabs(server.url, "dark", PHONE)
    tab.open(View("slow_rank", page, rank=5, steps=(5, 6)).url())
    tab.settle()
    tab.assert_sound()
    if page == "overview":
        banner = tab.page.locator(".banner")
        text = banner.locator(".message").bounding_box()
        assert text is not None
        assert text["width"] > 250  # not squeezed by its buttons


@pytest.mark.long
def test_steps_of_before_a_restart_and_a_link_to_them(tabs: OpenTab, tmp_path: Path) -> None:
    restarted_run(tmp_path / "again")
    with served(tmp_path, Settings(port=0)) as server:
        first = tabs(f"http://{server.address}")
        first.open(View("again", "timeline", steps=(1, 2)).url())
        first.settle()
        first.page.get_by_role("button", name="Copy link").first.click()
        link: str = first.page.evaluate("navigator.clipboard.readText()")
        assert "attempt=0" in link
        first.open(View("again", "ranks", steps=(1, 2)).url())
        first.page.wait_for_selector(".topbar[data-attempt='1']")
        first.page.get_by_role("button", name="Copy link").first.click()
        assert "attempt" not in first.page.evaluate("navigator.clipboard.readText()")
        first.go_away()

"""The ranks page in a real browser: without WebGL, empty, on a phone, maps and their cells."""

from __future__ import annotations

import re

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import PHONE, Tab

RANKS = View("slow_rank", "ranks")
NO_WEBGL = """
    const original = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        return kind === 'webgl2' ? null : original.call(this, kind, ...rest);
    };
"""


def test_without_webgl_the_ranks_are_flat_blocks_and_can_be_selected(tab: Tab) -> None:
    tab.profile.add_script(NO_WEBGL)
    tab.open(RANKS.to(rank=4).url())
    tab.settle()
    grid = tab.page.locator('[data-view="grid"]')
    assert "This browser has no WebGL2" in grid.locator(".map-note").inner_text()
    stage = grid.locator(".map-stage")
    assert tab.num_pixels(stage, "--fault") > 100, "the culprit is drawn"
    tab.page.locator('[data-view="grid"] canvas').first.focus()
    tab.page.keyboard.press("Shift+ArrowRight")
    tab.wait_for("window.rankscope.view.rank === 5")


def test_a_job_without_a_step_shows_a_note(tabs: OpenTab, server: Server) -> None:
    tab = tabs(server.url, size=PHONE)
    tab.open(View(runs_made.EMPTY, "ranks").url())
    tab.settle()
    note = tab.page.locator('[data-view="grid"] .map-note').inner_text()
    assert note.startswith("No finished step yet.")
    veil = tab.page.locator('[data-view="heat"] .veil')
    assert veil.inner_text() == "No finished step yet."
    assert "no finished step" in tab.page.locator(".rank-table [role=status]").inner_text()
    tab.assert_sound()


def test_a_damaged_metric_falls_back_alone(tab: Tab) -> None:
    tab.open(RANKS.to(metric="no such thing", rank=3).url())
    tab.settle()
    assert "There is no metric 'no such thing'" in tab.page.locator(".meaning").inner_text()
    assert tab.page.locator('[data-view="grid"] h2').inner_text() == "Slowdown by rank"
    assert tab.view()["rank"] == 3
    tab.assert_sound()


def test_a_cell_of_the_heat_map_selects_its_rank_and_step_and_two_clicks_undo_that(
    tab: Tab,
) -> None:
    tab.open(RANKS.url())
    tab.settle()
    canvas = tab.page.locator('[data-view="heat"] canvas').first
    box = canvas.bounding_box()
    assert box is not None
    place = box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.62
    tab.page.mouse.move(*place)
    tip = tab.page.locator('[data-view="heat"] .map-tip').inner_text()
    cell = re.match(r"rank (\d+), step (\d+)", tip)
    assert cell, tip
    assert "peers' median" in tip
    tab.page.mouse.click(*place)
    rank, step = int(cell[1]), int(cell[2])
    tab.wait_for(f"window.rankscope.view.rank === {rank}")
    assert tab.view()["steps"] == [step, step]
    tab.page.wait_for_timeout(700)
    tab.page.mouse.dblclick(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.2)
    tab.wait_for(f"window.rankscope.view.rank === {rank}")
    assert tab.view()["steps"] == [step, step]


def test_dragging_over_the_heat_map_zooms_and_escape_shows_it_whole(tab: Tab) -> None:
    tab.open(RANKS.url())
    tab.settle()
    heat = tab.page.locator('[data-view="heat"]')
    whole = heat.locator(".map-head .quiet").inner_text()
    box = heat.locator("canvas").first.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 200, box["y"] + 60)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 400, box["y"] + 200, steps=4)
    tab.page.mouse.up()
    tab.settle()
    assert heat.locator(".map-head .quiet").inner_text() != whole
    heat.locator("canvas").first.focus()
    tab.page.keyboard.press("Escape")
    tab.settle()
    assert heat.locator(".map-head .quiet").inner_text() == whole


def test_hosts_and_the_table_behind_the_map(tab: Tab) -> None:
    tab.open(RANKS.url())
    tab.settle()
    heat = tab.page.locator('[data-view="heat"]')
    heat.locator("summary").click()
    rows = heat.locator(".worst-cells tbody tr")
    rows.first.wait_for()
    assert rows.first.inner_text().startswith("5")
    heat.locator("select").select_option("hosts")
    tab.settle()
    assert "host × rank in host" in heat.locator("h2").inner_text()
    assert heat.locator(".map-head .quiet").inner_text().startswith("1 host,")


def test_keys_on_the_heat_map_say_the_cell_they_come_to(tab: Tab) -> None:
    tab.open(RANKS.url())
    tab.settle()
    heat = tab.page.locator('[data-view="heat"]')
    heat.locator("canvas").first.focus()
    tab.page.keyboard.press("ArrowDown")
    status = heat.locator("[aria-live]")
    assert status.inner_text().startswith("rank 1, step 13, Slowdown ")
    tab.page.keyboard.press("ArrowLeft")
    assert status.inner_text().startswith("rank 1, step 12, Slowdown ")

"""What is judged looks the same everywhere: red, waits, links, scope, planted faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.browser.conftest import OpenTab
from tests.browser.support.runs_made import indexed
from tests.browser.support.tabs import Tab
from tests.runs_builder import RunBuilder

CANVAS = '[data-view="timeline"] canvas'
STRIP = ".strip canvas"
BEGINS = 10
LANES = (40, 41, 42, 43)


@pytest.fixture(scope="module")
def tensor_job(runs: Path) -> str:
    """64 ranks with tensor parallelism of 4, of which rank 41 is slow from step 10 on."""
    fault = SyntheticFault.parse(f"slow_worker=41,x=1.5,from={BEGINS}")
    job = SyntheticJob(num_ranks=64, pp=4, tp=4, num_steps=24, seed=3, faults=(fault,))
    generate(job, runs / "tensor_job")
    return indexed(runs / "tensor_job")


def lanes(tab: Tab, run: str, rank: int | None, step: int) -> None:
    """Open the lanes of rank 41's tensor group in one step."""
    tab.open(View(run, "timeline", rank=rank, ranks=LANES, steps=(step, step)).url())
    tab.settle()
    tab.page.mouse.move(1, 1)


def test_a_link_for_a_victim_paints_its_culprit_red_and_nobody_else(
    tab: Tab, tensor_job: str
) -> None:
    lanes(tab, tensor_job, 40, BEGINS + 2)
    canvas = tab.page.locator(CANVAS)
    red = tab.num_pixels(canvas, "--fault")
    assert red > 100
    lanes(tab, tensor_job, None, BEGINS + 2)
    assert tab.num_pixels(canvas, "--fault") >= red, "the selected rank adds no red"
    lanes(tab, tensor_job, 41, BEGINS - 2)
    assert tab.num_pixels(canvas, "--fault") == 0, "the fault has not begun"


@pytest.mark.long
def test_waits_within_forward_and_backward_stay_visible_at_every_zoom(
    tab: Tab, tensor_job: str
) -> None:
    lanes(tab, tensor_job, 40, BEGINS + 2)
    canvas = tab.page.locator(CANVAS)
    for _ in range(6):
        assert tab.num_pixels(canvas, "--fault") > 150, tab.view()["t"]
        canvas.focus()
        tab.page.keyboard.press("w")
        tab.page.wait_for_timeout(400)
        tab.settle()
        tab.page.mouse.move(1, 1)
    first, last = tab.view()["t"]
    assert last - first < 100e6, "far closer than a step"


def test_a_link_opens_the_selected_span_with_its_panel_the_marks_and_the_pins(
    tabs: OpenTab, server: Server, tensor_job: str
) -> None:
    first = tabs(server.url)
    lanes(first, tensor_job, 41, BEGINS + 2)
    canvas = first.page.locator(CANVAS)
    canvas.focus()
    first.page.keyboard.press("w")
    first.page.wait_for_url(re.compile(r"[?&]t=\d+"))
    first.settle()
    canvas.click(position={"x": 640, "y": 60})
    first.page.get_by_label("Details").locator("h3").wait_for()
    first.page.mouse.move(*_point(first, 500, 300))
    first.page.keyboard.press("m")
    first.page.keyboard.press("p")  # the lane of the selected span
    first.page.wait_for_url(re.compile(r"&span=40,\d,\d+\.\.\d+&marks=\d+&pins=40\b"))
    first.settle()
    first.page.get_by_role("button", name="Copy link").first.click()
    link: str = first.page.evaluate("navigator.clipboard.readText()")
    second = tabs(server.url)
    second.open(link.removeprefix(server.url))
    for one in (first, second):
        one.settle()
        one.page.mouse.move(1, 1)
        one.page.wait_for_timeout(200)
    title = first.page.get_by_label("Details").locator("h3").inner_text()
    assert title.startswith("Rank 40: ")
    assert second.page.get_by_label("Details").locator("h3").inner_text() == title
    for field in ("span", "marks", "pins", "area"):
        assert second.view()[field] == first.view()[field]
    assert second.page.locator(CANVAS).screenshot() == canvas.screenshot()


@pytest.mark.long
def test_a_link_opens_the_selected_area_with_its_sums(
    tabs: OpenTab, server: Server, tensor_job: str
) -> None:
    first = tabs(server.url)
    lanes(first, tensor_job, None, BEGINS + 2)
    first.page.mouse.move(*_point(first, 400, 80))
    first.page.mouse.down()
    first.page.mouse.move(*_point(first, 800, 250), steps=5)
    first.page.mouse.up()
    first.page.wait_for_url(re.compile(r"[?&]area=\d+\.\.\d+,40,4\d"))
    first.page.get_by_label("Details").locator("td").first.wait_for()
    first.page.get_by_role("button", name="Copy link").first.click()
    link: str = first.page.evaluate("navigator.clipboard.readText()")
    second = tabs(server.url)
    second.open(link.removeprefix(server.url))
    second.page.get_by_label("Details").locator("td").first.wait_for()
    shown = [one.page.get_by_label("Details").locator("h3").inner_text() for one in (first, second)]
    assert shown[0] == shown[1]


def _point(tab: Tab, x: float, y: float) -> tuple[float, float]:
    """A point of the timeline's canvas, in the window."""
    box = tab.page.locator(CANVAS).bounding_box()
    assert box is not None
    return box["x"] + x, box["y"] + y


def test_the_panels_of_a_page_show_the_steps_that_the_chip_names(tab: Tab, tensor_job: str) -> None:
    tab.open(View(tensor_job, "ranks").url())
    tab.settle()
    chip = tab.page.locator(".scope-chip")
    assert chip.inner_text() == f"Shown: steps {BEGINS} to 23, since the finding begins"
    for panel in ("grid", "rank-table"):
        about = tab.page.locator(f'[data-view="{panel}"] .map-head').inner_text()
        assert f"steps {BEGINS} to 23" in about
    tab.open(View(tensor_job, "ranks", steps=(3, 5)).url())
    tab.settle()
    assert chip.inner_text() == "Shown: steps 3 to 5, chosen"
    assert tab.num_pixels(tab.page.locator('[data-view="grid"] .map-stage'), "--fault") == 0


def test_planted_faults_are_hidden_unless_asked_for(tab: Tab, tensor_job: str) -> None:
    tab.open(View(tensor_job, "ranks").url())
    tab.settle()
    table = tab.page.locator(".strip table")
    assert "Injected fault" not in table.inner_text()
    tab.page.get_by_role("button", name="Show planted faults").click()
    tab.page.wait_for_url(re.compile(r"[?&]truth=1\b"))
    assert "Injected fault" in table.inner_text()
    tab.page.get_by_role("button", name="Hide planted faults").click()
    assert "Injected fault" not in table.inner_text()


def test_a_job_whose_ranks_have_no_colour_names_its_steps_all_the_same(
    tab: Tab, runs: Path
) -> None:
    job = RunBuilder(runs / "only_lengths", 2)
    job.rank_files()
    for step in range(6):
        for rank in range(2):
            job.step(rank, step, 1000 * step, 1000 * step + 1000)
    job.publish()
    tab.open(View(indexed(runs / "only_lengths"), "overview").url())
    tab.settle()
    assert tab.page.locator(".scope-chip").inner_text() == "Shown: steps 1 to 5, the newest 5"
    assert "0.0" not in tab.page.locator(".kpis").inner_text(), "what is unknown is no number"

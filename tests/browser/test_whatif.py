"""The what-if page in a real browser: an import of StragglerAnalysis, and our own sample run."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from app.view_state import View
from benchmarks.browser import Server
from ingest.imports.importer import import_paths
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.browser.test_share import opened_offline, saved

JOB = MegatronJob(pp=4, dp=4, tp=2, num_steps=8, slow=((2, 1, 1.7),))
SLOW_RANK = 2 * 8 + 1 * 2
MAP, REPLAY = "section.whatif-map", "section.whatif-replay"


@pytest.fixture(scope="module")
def straggler_run(runs: Path) -> str:
    """Name of a run imported from a StragglerAnalysis trace with one slow worker."""
    folder = runs.parent / "straggler"
    folder.mkdir()
    pq.write_table(straggler_trace(JOB), folder / "trace-W.parquet")
    (folder / "meta-W.yaml").write_text(yaml.safe_dump(JOB.metadata))
    files = [folder / "trace-W.parquet", folder / "meta-W.yaml"]
    return runs_made.indexed(import_paths(files, runs))


@pytest.mark.long
def test_an_import_shows_the_cost_of_each_rank(tab: Tab, straggler_run: str) -> None:
    tab.open(View(straggler_run, "overview").url())
    tab.settle()
    tab.page.locator('.topbar a[data-page="what-if"]').click()
    tab.page.wait_for_selector("ol.whatif-causes")
    tab.settle()
    text = tab.page.locator(".whatif-head").inner_text()
    assert text.startswith("All unevenness of the ranks together, by replay: ")
    assert f"rank {SLOW_RANK}" in text
    assert "slow worker" in tab.page.locator("ol.whatif-causes").inner_text()
    assert "forward-compute" in tab.page.locator(".whatif-types").inner_text()
    schedules = tab.page.locator("section.whatif-schedules tbody tr")
    assert schedules.count() >= 6
    assert "1.00 x" in schedules.filter(has_text="1f1b").inner_text()
    stage = tab.page.locator(f"{MAP} canvas")
    assert tab.num_colours(stage) > 20
    assert tab.num_pixels(tab.page.locator(f"{REPLAY} canvas"), "--forward") > 500
    tab.assert_sound()


def test_a_cell_opens_the_timeline_of_its_rank(tab: Tab, straggler_run: str) -> None:
    tab.open(View(straggler_run, "what-if").url())
    tab.settle()
    canvas = tab.page.locator(f"{MAP} canvas")
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        tab.page.keyboard.press(key)
    where = f"stage 2, dp rank 1: rank {SLOW_RANK}"
    tab.page.locator(f"{MAP} [role=status]", has_text=where).wait_for(state="attached")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**/run/{straggler_run}/timeline?rank={SLOW_RANK}*")
    tab.settle()
    tab.page.go_back()
    tab.page.wait_for_selector(f"{MAP} canvas")
    tab.settle()
    box = tab.page.locator(f"{MAP} canvas").bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + 80, box["y"] + 20)
    tab.page.wait_for_url(f"**/run/{straggler_run}/timeline?rank=0*")


@pytest.mark.long
def test_steps_narrow_it_and_a_link_opens_the_same_step(tab: Tab, straggler_run: str) -> None:
    tab.open(View(straggler_run, "what-if", steps=(2, 5)).url())
    tab.settle()
    assert "4 steps, 2 to 5" in tab.page.locator(".whatif-head").inner_text()
    step = tab.page.locator(".whatif-step")
    before = int(step.input_value())
    tab.page.get_by_role("button", name="next step" if before < 5 else "previous step").click()
    wanted = before + 1 if before < 5 else before - 1
    tab.wait_for(f"document.querySelector('.whatif-step').value === '{wanted}'")
    tab.page.locator(f"{REPLAY} select").select_option(index=3)
    tab.wait_for("window.rankscope.view.rank === 6")
    tab.settle()
    tab.page.locator('[data-act="copy-link"]').click()
    link = tab.page.evaluate("navigator.clipboard.readText()")
    assert f"replay={wanted}" in link
    assert "steps=2..5" in link
    tab.page.goto(link)
    tab.page.wait_for_selector(f"{REPLAY} canvas")
    tab.settle()
    assert tab.page.locator(".whatif-step").input_value() == str(wanted)
    assert tab.page.locator(f"{REPLAY} select").input_value() == "6"
    tab.page.evaluate("window.rankscope.set({steps: [3, 3]})")
    tab.wait_for("document.querySelector('.whatif-head').innerText.includes('step 3')")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", DESKTOP), ("light", PHONE)], ids=["desktop", "phone"]
)
def test_the_recorded_sample(
    tabs: OpenTab, server: Server, theme: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, theme, size)
    tab.open(View("slow_rank", "what-if").url())
    tab.page.wait_for_selector(f"{REPLAY} canvas")
    tab.settle()
    assert "rank 5" in tab.page.locator(".whatif-head").inner_text()
    tab.page.wait_for_selector("ol.whatif-causes")
    assert "rank 5 computes" in tab.page.locator("ol.whatif-causes").inner_text()
    canvas = tab.page.locator(f"{MAP} canvas")
    canvas.focus()
    for key in ("ArrowRight", "ArrowDown"):
        tab.page.keyboard.press(key)
    status = tab.page.locator(f"{MAP} [role=status]").inner_text()
    assert status.startswith("stage 1, dp rank 0: slowest is rank 5, ")
    assert tab.num_pixels(tab.page.locator(f"{REPLAY} canvas"), "--backward") > 200
    rows = tab.page.locator(f"{REPLAY} table tbody tr")
    assert rows.count() == 2
    tab.assert_sound()


def test_what_cannot_be_replayed_is_explained_in_one_sentence(tab: Tab, imported_run: str) -> None:
    tab.open(View(imported_run, "overview").url())
    tab.settle()
    assert tab.page.locator('.topbar a[data-page="what-if"]').count() == 0
    tab.open(View(imported_run, "what-if").url())
    tab.settle()
    status = tab.page.locator(".whatif [role=status]").inner_text()
    assert status.startswith("No what-if analysis: ")
    assert "layout" in status
    tab.assert_sound()


def test_what_findings_cost_leads_to_the_finding(tab: Tab) -> None:
    tab.open(View("slow_rank", "what-if").url())
    tab.page.wait_for_selector("ol.whatif-cost-list")
    tab.settle()
    costs = tab.page.locator("ol.whatif-cost-list")
    assert "Rank 5 is slow" in costs.inner_text()
    assert "% of step time" in costs.inner_text()
    costs.get_by_role("link", name="Rank 5 is slow").click()
    tab.page.wait_for_url("**/run/slow_rank/overview?*finding=slow_worker-0-5-*")
    tab.wait_for("document.querySelector('.kpis')?.innerText.includes('Cost of the finding')")
    tab.assert_sound()


@pytest.mark.long
def test_a_shared_file_has_the_page_and_says_what_it_cannot_compute(
    tab: Tab, tabs: OpenTab, straggler_run: str, tmp_path: Path
) -> None:
    link = View(straggler_run, "what-if", pipeline=(("schedule", "gpipe"),))
    reader = opened_offline(tabs, saved(tab, link.url(), tmp_path))
    page = reader.page
    assert f"rank {SLOW_RANK}" in page.locator(".whatif-head").inner_text()
    assert reader.num_colours(page.locator(f"{MAP} canvas")) > 20
    assert reader.num_pixels(page.locator(f"{REPLAY} canvas"), "--forward") > 500
    assert "This file holds this step alone" in page.locator(REPLAY).inner_text()
    schedules = page.locator("section.whatif-schedules")
    assert "This file holds predictions for the job as it ran" in schedules.inner_text()
    assert schedules.locator("input").count() == 0
    assert schedules.locator("tr.chosen").inner_text().startswith("gpipe")
    schedules.get_by_role("button", name="1f1b").click()
    reader.wait_for("document.querySelector('tr.chosen').innerText.startsWith('1f1b')")
    assert reader.num_pixels(schedules.locator("canvas"), "--backward") > 500
    assert schedules.locator(".failed").count() == 0
    assert reader.sticking_out() == []

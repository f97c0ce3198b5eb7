"""The section on single operations of the page Efficiency in a real browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.analysis.imports import import_paths
from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.mfu_runs import mfu_run
from tests.profiled_runs import profiled_job

ROWS = ".roofline-operations tbody tr"


@pytest.fixture(scope="module")
def profiled(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a run of 4 ranks whose products are slower on rank 2."""
    job = profiled_job(tmp_path_factory.mktemp("profiled"))
    return runs_made.indexed(import_paths([job], runs, name="profiled"))


def _opened(tabs: OpenTab, server: Server, view: View, size: tuple[int, int], theme: str) -> Tab:
    tab = tabs(server.url, theme, size)
    tab.open(view.url())
    tab.page.wait_for_selector(ROWS)
    tab.settle()
    return tab


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_operations_are_shown_against_the_roofline_and_between_ranks(
    tabs: OpenTab, server: Server, profiled: str, size: tuple[int, int], theme: str
) -> None:
    tab = _opened(tabs, server, View(profiled, "efficiency"), size, theme)
    row = tab.page.locator(ROWS)
    assert row.count() == 1
    named = " ".join(row.locator("th").inner_text().split())
    assert named == "mm 4096 x 4096, 4096 x 4096"
    share = row.locator("td").nth(8).inner_text()
    # 137.4 GFLOP in 200, 201, 260 and 203 us on average, of 989 TFLOP/s
    assert share == f"{100 * 137_438.953472 / 216 / 989:.1f} %"
    point = tab.page.locator(".roofline-point")
    assert point.count() == 1
    assert "of its roofline" in (point.locator("title").text_content() or "")
    assert tab.page.locator(".roofline-roof").count() == 1
    assert tab.page.locator(".roofline-found").inner_text().startswith("Rank 2: mm 4096 x 4096")
    row.hover()
    assert "is-marked" in (point.get_attribute("class") or "")
    tab.page.click(".roofline-slow button")
    tab.wait_for("location.pathname.endsWith('/timeline')")
    assert "rank=2" in tab.page.evaluate("location.search")
    tab.assert_sound()


def test_a_bandwidth_and_a_peak_that_are_given_are_in_the_address(
    tabs: OpenTab, server: Server, profiled: str
) -> None:
    tab = _opened(tabs, server, View(profiled, "efficiency"), DESKTOP, "light")
    tab.page.fill(".roofline input[name=bandwidth]", "100")
    tab.page.keyboard.press("Enter")
    tab.wait_for("location.search.includes('bandwidth=100')")
    tab.page.locator(ROWS, has_text="memory").wait_for()  # 1 ms for its bytes, 139 us for FLOPs
    tab.page.fill(".mfu-fields input[name=peak]", "100")
    tab.page.keyboard.press("Enter")
    tab.page.locator(ROWS, has_text="compute").wait_for()
    tab.assert_sound()


def test_a_run_without_a_profile_says_so(tabs: OpenTab, server: Server, runs: Path) -> None:
    name = runs_made.indexed(mfu_run(runs / "not_profiled", 8))
    tab = tabs(server.url, "dark")
    tab.open(View(name, "efficiency").url())
    said = tab.page.locator(".roofline [role=status]", has_text="record_shapes=True")
    said.wait_for()
    assert said.inner_text().startswith("Single operations: ")
    tab.assert_sound()


@pytest.mark.long
def test_the_shared_file_has_the_section(
    browser: Browser, server: Server, profiled: str, tmp_path: Path
) -> None:
    with closing(Hub(server.runs)) as hub:
        content = shared_file(hub, View(profiled, "efficiency")).content
    (tmp_path / "shared.html").write_bytes(content)
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "shared.html").as_uri())
    page.wait_for_selector(f"#shared-roofline {ROWS}")
    assert page.locator("#shared-roofline .roofline-found").inner_text().startswith("Rank 2")
    assert page.locator("#shared-roofline form").count() == 0
    assert problems == []
    context.close()

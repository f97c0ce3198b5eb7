"""What the job logged, on the overview in a real browser."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import PHONE
from tests.runs_builder import RunBuilder

LOSSES = [4.0, 3.0, 90.0, math.nan, 2.0]


@pytest.fixture(scope="module")
def logging(runs: Path) -> str:
    """Name of a run that logs a loss, once not a number."""
    builder = RunBuilder(runs / "logging", 1)
    for step, loss in enumerate(LOSSES):
        builder.step(0, step, 100 * step, 100 * step + 90, loss=loss, lr=0.1)
        builder.span(0, step, "forward", 100 * step, 100 * step + 80)
    builder.rank_files()
    builder.publish()
    return runs_made.indexed(builder.folder)


@pytest.mark.long
def test_a_loss_that_is_no_number_leads_to_its_step(
    tabs: OpenTab, server: Server, logging: str
) -> None:
    tab = tabs(server.url, "light", PHONE)
    tab.open(View(logging).url())
    tab.page.wait_for_selector(".logged figure")
    loss, rate = tab.page.locator(".logged figure").all()
    assert "2 in step 4, highest 90 in step 2" in loss.inner_text()
    assert "NaN or infinite in step 3" in loss.inner_text()
    assert "0.1 in step 4" in rate.inner_text()
    assert loss.locator("path.logged-bad").get_attribute("d") != ""
    tab.page.locator(".logged summary").click()
    cells = tab.page.locator(".logged tbody tr").nth(1).inner_text().split()
    assert cells == ["3", "not", "finite", "0.1"]
    tab.assert_sound()
    loss.get_by_role("button", name="Show the first").click()
    tab.page.wait_for_url("**/timeline?*steps=2..4*")

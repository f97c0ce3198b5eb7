"""The page Data in a real browser: waits, workers, mixture, memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE
from tests.data_runs import data_run, redundant_run

PANEL = ".data-loading section[aria-label='{}'] tbody tr:first-child"


@pytest.fixture(scope="module")
def loaders(runs: Path) -> str:
    """Name of a run with a slow worker, which also grows."""
    return runs_made.indexed(data_run(runs / "loaders"))


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_slow_worker_a_mixture_and_memory(
    tabs: OpenTab, server: Server, loaders: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, "light", size)
    tab.open(View(loaders, "data").url())
    tab.page.wait_for_selector(PANEL.format("Workers"))
    tab.settle()
    why = tab.page.locator("section[aria-label='Waiting for data'] .data-why").inner_text()
    assert why.startswith("Of the rank that waits longest: Worker 1 takes 40.0 ms")
    first = tab.page.locator(PANEL.format("Workers"))
    assert "20.0 x" in first.inner_text()
    assert first.locator("td.is-slow").inner_text() == "40.0 ms"
    code = tab.page.locator(PANEL.format("Mixture"))
    assert code.locator("td.is-slow").inner_text() == "25 %"
    dealing = tab.page.locator("section[aria-label='Dealing of sequences']")
    assert "would take 37 % less time to compute" in dealing.locator(".data-why").inner_text()
    assert dealing.locator("tbody button").all_inner_texts() == ["rank 0", "rank 1"]
    standby = tab.page.locator(PANEL.format("Standby loaders")).inner_text()
    assert "354 samples" in standby
    assert "+150 MB" in tab.page.locator(PANEL.format("Memory of workers")).inner_text()
    first.locator("button").click()
    tab.wait_for("location.search.includes('rank=1')")
    assert first.locator("button").get_attribute("aria-pressed") == "true"
    tab.assert_sound()


@pytest.mark.long
def test_ranks_that_read_the_same_batches(tabs: OpenTab, server: Server, runs: Path) -> None:
    tab = tabs(server.url, "dark", PHONE)
    tab.open(View(runs_made.indexed(redundant_run(runs / "redundant")), "data").url())
    tab.page.wait_for_selector(PANEL.format("Workers"))
    tab.settle()
    sentences = " ".join(tab.page.locator(".data-loading > p.sentence").all_inner_texts())
    assert "2 ranks of each tensor-parallel group read the same batches: 2.0 times" in sentences
    assert "No batch says which sources it is from." in sentences
    tab.assert_sound()

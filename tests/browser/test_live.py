"""Every page of a run that is written while one looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.view_state import PAGE_NAMES, View
from tests.browser.support.replaying import news, replayed
from tests.browser.support.tabs import Tab


@pytest.fixture(scope="module")
def live_run(runs: Path) -> Iterator[str]:
    """Name of a run that is being written while the test runs."""
    with replayed(runs, "live") as name:
        yield name


@pytest.mark.sampled(every=20)
@pytest.mark.parametrize("page", PAGE_NAMES)
def test_pages_follow_a_run_that_is_written(tab: Tab, live_run: str, page: str) -> None:
    tab.open(View(live_run, page).url())
    first, second, _ = news(tab, 3)  # at the third, what the first brought has been drawn
    assert second["run"] == live_run
    assert second["version"] > first["version"]
    assert second["last_step"] >= first["last_step"]
    tab.page.wait_for_selector(".topbar .state.running")
    tab.assert_sound()

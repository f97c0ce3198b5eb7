"""Start-up and goodput, sections of the page Efficiency, in a real browser."""

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
from tests.runs_builder import RunBuilder
from tests.startup_runs import interrupted_run, phases, started_run

SLOW = {rank: phases(waits=6) for rank in range(4)} | {
    2: phases("restore", 6, what="<b>load</b> at a.py:3")
}


@pytest.fixture(scope="module")
def slow(runs: Path) -> str:
    """Name of a run that waited for rank 2."""
    return runs_made.indexed(started_run(runs / "slow-start", SLOW).folder)


@pytest.fixture(scope="module")
def interrupted(runs: Path) -> str:
    """Name of a run with three attempts."""
    return runs_made.indexed(interrupted_run(runs / "interrupted").folder)


def opened(tabs: OpenTab, server: Server, view: View, size: tuple[int, int] = DESKTOP) -> Tab:
    tab = tabs(server.url, "light", size)
    tab.open(view.url())
    tab.page.wait_for_selector(".goodput section, .goodput .sentence strong")
    tab.page.wait_for_selector(".startup section, .startup .sentence strong")
    tab.settle()
    return tab


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_who_was_slow_and_each_ranks_phases(
    tabs: OpenTab, server: Server, slow: str, size: tuple[int, int]
) -> None:
    tab = opened(tabs, server, View(slow, "efficiency"), size)
    said = tab.page.locator(".startup-slow").inner_text()
    assert said.startswith("Rank 2: 7.0 s reading a checkpoint (<b>load</b> at a.py:3)")
    assert tab.page.locator(".startup-ranks tbody tr").count() == 4
    first = tab.page.locator(".startup-ranks tbody tr").first
    assert first.locator("th").inner_text() == "rank 2"
    assert first.locator("i.phase-restore").count() == 1
    assert tab.page.locator(".startup-spread td.is-slow").inner_text() == "7.0 s"
    tab.assert_sound()


def test_a_rank_is_selected_by_its_button(tabs: OpenTab, server: Server, slow: str) -> None:
    tab = opened(tabs, server, View(slow, "efficiency"))
    tab.page.locator(".startup-ranks").get_by_role("button", name="rank 2").click()
    tab.wait_for("location.search.includes('rank=2')")
    tab.assert_sound()


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_ledger_and_the_interval_between_saves(
    tabs: OpenTab, server: Server, interrupted: str, size: tuple[int, int]
) -> None:
    tab = opened(tabs, server, View(interrupted, "efficiency"), size)
    head = tab.page.locator(".goodput header").inner_text()
    assert "51.1 % of 3.8 min was productive" in head
    rows = tab.page.locator(".goodput-ledger tbody tr")
    assert [row.locator("td").nth(1).inner_text() for row in rows.all()] == [
        "failed",
        "killed",
        "finished",
    ]
    assert "interrupted only twice" in tab.page.locator(".goodput").inner_text()
    assert tab.page.locator(".goodput-curve path").count() == 3
    tab.assert_sound()


def test_a_run_without_a_recorded_start(tabs: OpenTab, server: Server, runs: Path) -> None:
    run = RunBuilder(runs / "no-start", 1)
    run.step(0, 0, 0, 100)
    run.rank_files()
    run.publish()
    name = runs_made.indexed(run.folder)
    tab = opened(tabs, server, View(name, "efficiency"))
    assert "Start-up: not recorded" in tab.page.locator(".startup").inner_text()
    tab.assert_sound()


@pytest.mark.long
def test_a_shared_file_has_both_sections(
    browser: Browser, server: Server, slow: str, tmp_path: Path
) -> None:
    with closing(Hub(server.runs)) as hub:
        content = shared_file(hub, View(slow, "efficiency")).content
    (tmp_path / "shared.html").write_bytes(content)
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "shared.html").as_uri())
    page.wait_for_selector("#shared-startup .startup-slow")
    page.wait_for_selector("#shared-goodput .goodput-ledger")
    assert problems == []
    context.close()

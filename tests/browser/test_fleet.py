"""The page Fleet in a real browser: sums, filters, the table, and what an empty folder shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.browser import Server
from benchmarks.fleet import made_runs
from benchmarks.random_fleets import fleet_run
from diagnosis.fleet.summary import Summary
from tests.browser.conftest import OpenTab
from tests.browser.support.runs_made import SCRIPT
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.runs_builder import two_rank_run

NUM_RUNS = 120
PANEL = ".fleet section[aria-label='{}']"
ROWS = ".fleet-table tbody tr"


def summaries() -> dict[str, Summary]:
    """Runs of two jobs; host 0 is slow in six of the ten runs in which it takes part, each time on
    another place. One run has HTML in its texts.
    """
    rng = np.random.default_rng(2)
    runs = {}
    for number in range(NUM_RUNS):
        hosts = rng.choice(np.arange(1, 30), 4, replace=False).tolist()
        if number % 12 == 0:
            hosts[number // 12 % 4] = 0
        slow = [0] if number in (0, 12, 36, 60, 84, 108) else hosts[:1] if number % 25 == 7 else []
        name = f"run{number:04d}"
        runs[name] = fleet_run(name, number % 2 if number % 12 else 0, number, hosts, slow)
    hostile = msgspec.structs.replace(runs["run0007"].findings[0], title=SCRIPT, id=SCRIPT)
    changed = {"model": SCRIPT, "hosts": (SCRIPT, *runs["run0007"].hosts), "findings": (hostile,)}
    return runs | {"run0007": msgspec.structs.replace(runs["run0007"], **changed)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a folder of runs with these summaries, one without, and one that is damaged."""
    runs = tmp_path_factory.mktemp("fleet") / "runs"
    made_runs(runs, summaries())
    two_rank_run(runs / "small", num_steps=8)
    (runs / "damaged").mkdir()
    (runs / "damaged" / "run.json").write_text("{")
    server = Server(runs).start()
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


def opened(tab: Tab, address: str = "/fleet") -> Tab:
    tab.open(address)
    tab.page.wait_for_selector(".fleet-panels > .panel, .fleet-pair")
    tab.wait_for("document.querySelector('.fleet > .note')?.hidden")
    tab.settle()
    return tab


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_all_runs(fleet: Server, tabs: OpenTab, theme: str, size: tuple[int, int]) -> None:
    tab = opened(tabs(fleet.url, theme, size))
    hosts = tab.page.locator(PANEL.format("Hosts that are slow again"))
    assert "gpu0000: slow in 6 of 10 runs" in hosts.inner_text()
    assert hosts.locator("li").count() == 1
    assert "slow rank" in tab.page.locator(PANEL.format("Lost, by cause")).inner_text()
    assert "damaged" in tab.page.locator(PANEL.format("Runs without a summary")).inner_text()
    assert tab.page.locator(".fleet-dots a").count() > 100
    assert tab.page.locator(ROWS).count() == 100
    assert tab.page.locator("[onclick], [onerror], #page script").count() == 0
    tab.assert_sound()


def test_a_filter_is_in_the_address_and_comes_back_from_it(fleet: Server, tabs: OpenTab) -> None:
    tab = opened(tabs(fleet.url))
    tab.page.get_by_label("Model", exact=True).select_option("job1")
    tab.wait_for("document.querySelectorAll('.fleet-table tbody tr').length < 100")
    tab.page.get_by_label("First day").fill("2026-02-01")
    tab.page.get_by_label("First day").dispatch_event("change")
    tab.wait_for("location.search.includes('f.from=2026-02-01')")
    tab.settle()
    shown = tab.page.locator(".fleet-head header").inner_text()
    assert "of 121 runs" in shown
    again = opened(tabs(fleet.url), tab.page.url.removeprefix(fleet.url))
    assert again.page.locator(".fleet-head header").inner_text() == shown
    assert again.page.get_by_label("Model", exact=True).input_value() == "job1"
    again.page.get_by_role("button", name="Clear filters").click()
    again.wait_for("!location.search")
    again.wait_for("document.querySelector('.fleet-head header').innerText.includes('121 runs,')")


def test_the_table_is_sorted_and_turned(fleet: Server, tabs: OpenTab) -> None:
    tab = opened(tabs(fleet.url))
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.wait_for(f"document.querySelector('{ROWS} a')?.textContent === 'run0000'")
    assert tab.page.evaluate("document.activeElement.dataset.key") == "sort run"
    tab.page.get_by_role("button", name="Next").click()
    tab.wait_for(f"document.querySelector('{ROWS} a')?.textContent === 'run0100'")
    tab.wait_for("location.search.includes('f.sort=run')")


def test_what_tab_stops_at_has_a_name(fleet: Server, tabs: OpenTab) -> None:
    tab = opened(tabs(fleet.url))
    stops = tab.page.locator("main div[tabindex='0']")
    assert stops.count() >= 3
    assert tab.page.locator("main div[tabindex='0']:not([role=region][aria-label])").count() == 0


def test_a_run_opens_without_a_reload_and_back_leads_here(fleet: Server, tabs: OpenTab) -> None:
    tab = opened(tabs(fleet.url), "/fleet?f.sort=run&f.dir=asc")
    tab.page.evaluate("window.isSamePage = true")
    tab.page.locator(f"{ROWS} a").first.click()
    tab.page.wait_for_url("**/run/run0000/overview")
    tab.page.go_back()
    tab.page.wait_for_selector(ROWS)
    assert tab.page.evaluate("window.isSamePage")
    assert tab.page.url.endswith("/fleet?f.sort=run&f.dir=asc")
    tab.page.locator(".topbar a", has_text="Runs").click()
    tab.page.wait_for_selector(".runs-table")
    tab.page.locator(".topbar a", has_text="Fleet").click()
    tab.page.wait_for_selector(ROWS)
    tab.settle()


def test_a_damaged_filter_is_one_sentence(fleet: Server, tabs: OpenTab) -> None:
    tab = tabs(fleet.url)
    tab.problems.allow("400")
    tab.open("/fleet?f.from=yesterday")
    tab.page.wait_for_selector("text=from is 'yesterday'; give a date such as 2026-03-31")
    tab.page.get_by_role("button", name="Clear filters").click()
    tab.page.wait_for_selector(ROWS)


def test_a_choice_without_runs(fleet: Server, tabs: OpenTab) -> None:
    tab = opened(tabs(fleet.url), "/fleet?f.host=nobody")
    assert "No run matches this choice" in tab.page.locator("#page").inner_text()
    tab.assert_sound()


def test_an_empty_folder(tmp_path: Path, tabs: OpenTab) -> None:
    (tmp_path / "runs").mkdir()
    server = Server(tmp_path / "runs").start()
    try:
        tab = opened(tabs(server.url))
        assert "No runs yet" in tab.page.locator("#page").inner_text()
        tab.assert_sound()
        tab.leave()
    finally:
        server.stop()

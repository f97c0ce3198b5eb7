"""Everything can be reached and done by keys."""

from __future__ import annotations

import pytest

from app.view_state import PAGE_NAMES, View
from benchmarks.browser import Server
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.browser.support.tabs import Tab

# visible controls get a number; focus that comes by notes the number of its own
CONTROLS = """() => {
    const wanted = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
    const isSeen = (e) => e.checkVisibility({visibilityProperty: true}) && !e.disabled
        && e.getClientRects().length > 0 && !e.closest('[inert], [hidden]');
    const found = [...document.querySelectorAll(wanted)]
        .filter((e) => isSeen(e) && e.tabIndex >= 0);
    window.reached = new Set();
    document.addEventListener('focusin', (event) => reached.add(event.target));
    window.controls = found;
    return found.length;
}"""
MISSED = """() => window.controls.filter((e) => e.checkVisibility() && !reached.has(e))
    .map((e) => e.outerHTML.slice(0, 160))"""
NAMELESS = """() => [
    ...document.querySelectorAll('button, a[href], input, select, textarea, canvas'),
].filter((e) => e.checkVisibility() && !e.closest('[aria-hidden="true"]'))
    .filter((e) => !(e.getAttribute('aria-label') || e.innerText?.trim() || e.labels?.length
                     || e.title || e.placeholder))
    .map((e) => e.outerHTML.slice(0, 160))"""


@pytest.mark.sampled(every=10)
@pytest.mark.parametrize("page", PAGE_NAMES)
def test_every_control_has_a_name_and_tab_reaches_it(tab: Tab, page: str) -> None:
    tab.open(View("slow_rank", page).url())
    tab.settle()
    assert tab.page.evaluate(NAMELESS) == []
    if page != "query":
        in_words = tab.page.locator("table").first  # the same for those who see nothing
        in_words.wait_for(state="attached")
    number = tab.page.evaluate(CONTROLS)
    assert number > 8
    for _ in range(3):  # on a busy machine, more controls may appear meanwhile
        for _ in range(number + 5):
            tab.page.keyboard.press("Tab")
        missed = tab.page.evaluate(MISSED)
        if not missed:
            break
    assert missed == []


@pytest.mark.long
def test_pages_by_keys(tab: Tab) -> None:
    tab.open(View("slow_rank", "overview").url())
    keys = {
        "t": "timeline",
        "r": "ranks",
        "q": "query",
        "w": "what-if",
        "m": "model",
        "o": "overview",
    }
    for key, page in keys.items():
        tab.page.keyboard.press("g")
        tab.page.keyboard.press(key)
        tab.page.wait_for_url(f"**/run/slow_rank/{page}*")
        tab.page.wait_for_selector(f'.topbar a[data-page="{page}"][aria-current="page"]')
        tab.settle()


@pytest.fixture(scope="module")
def two_findings(server: Server) -> str:
    """Name of a run with two slow ranks in different stages."""
    slow = (SyntheticFault("slow_worker", 3, 1.6, 4), SyntheticFault("slow_worker", 14, 1.4, 8))
    job = SyntheticJob(16, 2, 2, num_steps=16, level="steps", faults=slow)
    generate(job, server.runs / "two")
    return "two"


def test_j_and_k_go_through_the_findings(tab: Tab, two_findings: str) -> None:
    tab.open(View(two_findings, "overview").url())
    tab.settle()
    banner = tab.page.locator(".banner .message")
    first = banner.inner_text()
    tab.page.keyboard.press("j")
    tab.wait_for(f"document.querySelector('.banner .message').innerText !== {first!r}")
    second = banner.inner_text()
    assert {first.split(" is ")[0], second.split(" is ")[0]} == {"Rank 3", "Rank 14"}
    tab.page.keyboard.press("k")
    tab.wait_for(f"document.querySelector('.banner .message').innerText === {first!r}")

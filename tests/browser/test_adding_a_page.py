"""docs/adding-a-page.md holds: its modules and lines are a tab of a run, in a real browser."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.app.runs import test_policies
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.guide_examples import DOCS, example

GUIDE = "adding-a-page.md"
REPO = DOCS.parent
(USE,) = re.findall(r'`("coverage": _fresh\(.*?\))`', (DOCS / GUIDE).read_text())
LINES = {
    "app/view_state.py": [
        (
            ')\n"""Tabs of a run',
            '    Page("coverage", "Coverage", "c"),\n)\n"""Tabs of a run',
        ),
    ],
    "app/routes/__init__.py": [
        ("from app.routes import (", "from app.routes import (\n    coverage,"),
        ("ROUTES = (", "ROUTES = (\n    coverage,"),
    ],
    "app/runs/policies.py": [
        ("USES: dict[str, Use] = {", f"USES: dict[str, Use] = {{\n    {USE},")
    ],
}
"""What the section "The lines" names, as replacements."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code with the guide's modules and lines."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("app", "assets"):
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ingest", "diagnosis", "trace_hooks", "sample_traces"):
        (copy / name).symlink_to(REPO / name)
    for folder, holding in (
        ("views", "class RankCoverage"),
        ("routes", "def routes("),
        ("pages", "def render("),
    ):
        (copy / "app" / folder / "coverage.py").write_text(example(GUIDE, holding))
    (copy / "assets" / "coverage").mkdir()
    view = example(GUIDE, "export function mount", "js")
    (copy / "assets" / "coverage" / "view.mjs").write_text(view)
    for name, replacements in LINES.items():
        text = (copy / name).read_text()
        for old, new in replacements:
            assert text.count(old) == 1, f"{name}: {old}"
            text = text.replace(old, new)
        (copy / name).write_text(text)
    return copy


@pytest.fixture(scope="module")
def changed_server(runs: Path, checkout: Path) -> Iterator[Server]:
    """Serves `runs` with that code."""
    running = Server(runs, checkout=checkout).start()
    yield running
    assert running.stop() == 0, running.log.read_text()[-4000:]
    assert "Traceback" not in running.log.read_text()


def test_the_guide_names_every_file_that_needs_a_line() -> None:
    section = (DOCS / GUIDE).read_text().partition("## The lines")[2].partition("\n## ")[0]
    assert [name for name in LINES if f"`{name}`" not in section] == []


@pytest.mark.long
def test_its_cached_answer_is_in_the_table(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_policies, "APP", checkout / "app")
    uses = runpy.run_path(str(checkout / "app/runs/policies.py"))["USES"]
    monkeypatch.setattr(test_policies, "USES", uses)
    assert "coverage" in uses
    test_policies.test_the_table_names_the_requesters_and_the_policy_of_each_answer()


@pytest.mark.long
def test_the_page_of_the_guide_is_a_tab(changed_server: Server, tabs: OpenTab) -> None:
    tab = tabs(changed_server.url)
    tab.open(View("slow_rank", "overview").url())
    tab.settle()
    tab.page.locator('.topbar a[data-page="coverage"]').click()
    rows = tab.page.locator("[data-view=coverage] tr")
    rows.nth(7).wait_for()
    assert rows.count() == 8
    assert "rank 5" in rows.nth(5).inner_text()
    rows.nth(5).get_by_role("button").click()
    tab.wait_for("new URLSearchParams(location.search).get('rank') === '5'")
    pressed = tab.page.locator("[data-view=coverage] button[aria-pressed=true]")
    pressed.wait_for()
    assert pressed.inner_text() == "rank 5"


@pytest.mark.long
def test_news_of_the_run_leave_the_keyboard_where_it_is(
    changed_server: Server, tabs: OpenTab
) -> None:
    tab = tabs(changed_server.url)
    tab.open(View("slow_rank", "coverage").url())
    third = tab.page.locator("[data-view=coverage] button").nth(3)
    third.focus()
    third.evaluate("(button) => { button.isOld = true; }")
    tab.page.evaluate("window.rankscope.dispatchEvent(new CustomEvent('run', { detail: {} }))")
    tab.wait_for("document.activeElement.textContent === 'rank 3' && !document.activeElement.isOld")


@pytest.mark.long
def test_a_job_that_has_finished_no_step(changed_server: Server, tabs: OpenTab) -> None:
    tab = tabs(changed_server.url)
    tab.open(View(runs_made.EMPTY, "coverage").url())
    tab.page.get_by_text("No step is finished yet.").first.wait_for()

"""The page Stuck and the pane of log lines in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support.runs_made import indexed
from tests.browser.support.tabs import DESKTOP, PHONE
from tests.runs_builder import T0
from tests.stuck_runs import QUIET_S, SCRIPT, SECOND, STEPS, failed_run, stuck_run

SIZES = {"desk": DESKTOP, "phone": PHONE}


@pytest.fixture(scope="module", autouse=True)
def stuck_runs(runs: Path) -> None:
    """A job that waits for a rank, one with a circle of waits, one that failed."""
    stuck_run(runs / "missing")
    stuck_run(runs / "circle", circle=True)
    failed_run(runs / "failed")
    for name in ("missing", "circle", "failed"):
        indexed(runs / name)


def panel(page: Page, title: str) -> str:
    """Its text on one line."""
    region = page.get_by_role("region", name=title, exact=True)
    return " ".join(region.first.inner_text().split())


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "theme"), [("desk", "dark"), ("phone", "light")])
def test_who_is_waited_for(server: Server, tabs: OpenTab, size: str, theme: str) -> None:
    tab = tabs(server.url, theme, SIZES[size])
    page = tab.open("/run/missing/stuck")
    sentence = page.locator(".stuck-head strong")
    expect(sentence).to_contain_text("Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31")
    assert "rank 2 is waited for by ranks 0, 1 and 3" in panel(page, "Who waits for whom")
    assert "py-spy dump --native --pid 4002" in panel(page, "What to try next")
    posted = panel(page, "Who has posted what")
    assert "all_reduce 31 ranks 0, 1 and 3 rank 2 20.0 s" in posted
    assert "A rank 2: code in prepare" in panel(page, "What ranks do")
    assert "only ranks 0, 1 and 3 (3)" in panel(page, "What ranks do")
    cells = page.locator(".stuck-cells span").all_inner_texts()
    assert ["".join(text.split()) for text in cells] == ["0B", "1B", "2A", "3B"]
    assert SCRIPT in panel(page, "Last lines")
    tab.assert_sound()


def test_a_circle_of_waits_is_drawn(server: Server, tabs: OpenTab) -> None:
    page = tabs(server.url).open("/run/circle/stuck")
    picture = page.get_by_role("img", name="A circle of waits: rank 2, rank 3 and back to rank 2")
    picture.wait_for()
    assert picture.locator(".stuck-node").count() == 2
    assert picture.locator(".stuck-arrow").count() == 2
    text = panel(page, "Who waits for whom")
    assert "rank 2 waits for rank 3 in all_reduce 5 of group g8 (dp)" in text
    assert "rank 3 waits for rank 2 in all_reduce 31 of group g7" in text


def test_a_failure_shows_its_traceback_and_leads_to_the_log_and_the_timeline(
    server: Server, tabs: OpenTab
) -> None:
    tab = tabs(server.url)
    page = tab.open("/run/failed/stuck")
    page.get_by_text("The whole traceback, 3 lines").wait_for()
    expect(page.get_by_label("only the steps in view")).to_be_hidden()
    assert "Nothing is stuck" not in page.locator("#page .panel").first.inner_text()
    page.get_by_role("button", name="Show its lines in the log").click()
    lines = page.locator(".log-lines li")
    expect(lines).to_have_count(1)
    assert SCRIPT in lines.first.inner_text()
    page.get_by_role("button", name="Show the lines of all ranks").click()
    page.get_by_label("Search the lines").fill("step 3")
    expect(lines.first).to_contain_text("ranks 0 and 1")
    lines.first.get_by_role("button").click()
    page.wait_for_url("**/timeline?**")
    assert (tab.view()["rank"], tab.view()["steps"]) == (0, [2, 3])


def test_the_timeline_has_the_lines_of_its_steps(server: Server, tabs: OpenTab) -> None:
    page = tabs(server.url).open("/run/failed/timeline?steps=2..3&rank=0")
    page.locator(".log-pane > summary").click()
    expect(page.locator(".log-head [role=status]")).to_have_text("4 lines in steps 2 to 3")
    page.get_by_label("only the steps in view").uncheck()
    expect(page.locator(".log-head [role=status]")).to_have_text("13 lines")
    page.get_by_label("Least level").select_option("error")
    expect(page.locator(".log-lines li")).to_have_count(1)


@pytest.mark.long
def test_news_leave_open_what_is_open_and_the_focus_where_it_is(
    server: Server, tabs: OpenTab, runs: Path
) -> None:
    job = stuck_run(runs / "goes-on-standing")
    indexed(runs / "goes-on-standing")
    page = tabs(server.url).open("/run/goes-on-standing/stuck")
    group = page.locator("details[data-key='stack ranks 0, 1 and 3']")
    group.locator("summary").click()
    page.get_by_role("button", name="rank 3", exact=True).focus()
    for rank in range(4):
        at_ns = T0 + (QUIET_S + 11) * SECOND
        looked = {"ts_ns": at_ns, "pid": 4000 + rank, "process": "S", "beat_age_ns": SECOND}
        looked |= {"quiet_ns": at_ns - T0 - SECOND, "longest_ns": 0, "num_entered": 31}
        job.add(
            "looks", rank, STEPS, cpu_ns=SECOND, io_bytes=0, call="", stack="f a.py:1", **looked
        )
        job.add("heartbeats", rank, STEPS, ts_ns=at_ns)
    job.publish()
    expect(page.locator(".stuck-head strong")).to_contain_text("for 30 s.")
    expect(page.get_by_role("button", name="rank 3", exact=True)).to_be_focused()
    expect(page.locator(".stuck-merged")).to_have_count(1)


def test_the_overview_leads_here(server: Server, tabs: OpenTab) -> None:
    page = tabs(server.url).open("/run/missing/overview")
    banner = page.locator(".banner")
    expect(banner).to_contain_text("Rank 2 is missing from all_reduce 31")
    banner.get_by_role("link", name="Show me").click()
    page.wait_for_url("**/run/missing/stuck?**")
    page.get_by_role("region", name="Who waits for whom").wait_for()


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "theme"), [("desk", "dark"), ("phone", "light")])
def test_a_shared_file_has_the_same_panels(
    browser: Browser, runs: Path, tmp_path: Path, size: str, theme: str
) -> None:
    hub = Hub(runs)
    (tmp_path / "stuck.html").write_bytes(shared_file(hub, View("circle", "stuck")).content)
    hub.close()
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, offline=True
    )
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.goto((tmp_path / "stuck.html").as_uri())
    page.locator("#shared-stuck .stuck-circle svg").wait_for()
    assert "Where every rank stands" in page.locator("#shared-stuck").inner_text()
    assert page.locator("#shared-stuck tbody button").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert messages == []
    context.close()

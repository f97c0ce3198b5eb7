"""Uploads that break, stop and are looked at while they are read."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Route

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.cutting import CutLine
from tests.browser.support.tabs import Tab
from tests.browser.support.uploading import (
    BIG_BYTES,
    FILES,
    FOLDER,
    LONG_MS,
    imported_run,
    num_ranks_listed,
    panel_text,
    wait_for_text,
)

NO_ANSWER = "ERR_|Failed to load|failed: |status (409|423)"
"""What a cut line makes the browser note; 409, 423: the server was still writing what had come."""


@pytest.fixture
def line(server: Server) -> Iterator[CutLine]:
    """A line to the server that can be cut."""
    with CutLine(server.port) as line:
        yield line


@pytest.fixture
def shaky(line: CutLine, tabs: OpenTab) -> Tab:
    """A tab on that line, in which a broken connection is no fault of the page."""
    return on_line(tabs, line)


def on_line(tabs: OpenTab, line: CutLine) -> Tab:
    tab = tabs(line.url)
    tab.problems.allow(NO_ANSWER)
    return tab


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A torch.profiler trace of several pieces."""
    return runs_made.big_kineto(tmp_path_factory.mktemp("big") / "big.json", BIG_BYTES)


def unfinished(server: Server) -> list[Path]:
    """What has come of uploads that are not over."""
    return list((server.runs / ".uploads").iterdir())


@pytest.mark.long
def test_a_broken_connection_is_gone_on_with(
    shaky: Tab, server: Server, line: CutLine, big: Path
) -> None:
    tab = shaky
    tab.open()
    line.cut_after = BIG_BYTES // 3
    tab.page.locator(FILES).set_input_files(big)
    run = imported_run(tab)
    assert line.num_cuts == 1
    assert (server.runs / run / "run.json").is_file()
    assert unfinished(server) == []
    assert num_ranks_listed(tab, run) == 1


@pytest.mark.long
def test_a_reload_is_gone_on_with_by_the_same_files(shaky: Tab, line: CutLine, big: Path) -> None:
    tab = shaky
    stop_at(tab, line, big)
    tab.page.goto("about:blank")
    line.is_down = False
    tab.open()
    wait_for_text(tab, "received")
    assert "Choose or drop the same files again" in panel_text(tab)
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Choose files").click()
    sent: list[int] = []
    tab.page.on(
        "request",
        lambda r: sent.append(int(r.headers["upload-offset"])) if r.method == "PATCH" else None,
    )
    chooser.value.set_files(big)
    imported_run(tab)
    assert min(sent) > BIG_BYTES // 4  # not from its beginning


def stop_at(tab: Tab, line: CutLine, big: Path) -> None:
    """Send a third of a file until the line goes down."""
    tab.open()
    line.cut_after, line.stays_down = BIG_BYTES // 3, True
    tab.page.locator(FILES).set_input_files(big)
    tab.page.locator(".upload.broken").wait_for(timeout=LONG_MS)


@pytest.mark.long
def test_a_restart_of_the_server_is_gone_on_with(tabs: OpenTab, tmp_path: Path, big: Path) -> None:
    (tmp_path / "runs").mkdir()
    own = Server(tmp_path / "runs").start()
    with CutLine(own.port) as line:
        tab = on_line(tabs, line)
        stop_at(tab, line, big)
        own.kill()
        own.start()
        line.is_down = False
        tab.page.get_by_role("button", name="Try now").click()
        run = imported_run(tab)
        assert unfinished(own) == []
        assert num_ranks_listed(tab, run) == 1
        tab.go_away()
    assert own.stop() == 0
    assert "Traceback" not in own.log.read_text()


@pytest.mark.long
def test_what_has_come_may_be_discarded(
    shaky: Tab, server: Server, line: CutLine, big: Path
) -> None:
    tab = shaky
    stop_at(tab, line, big)
    tab.page.goto("about:blank")
    line.is_down = False
    tab.open()
    tab.page.get_by_role("button", name="Discard").click()
    wait_for_text(tab, "the server kept nothing of it")
    tab.settle()
    assert unfinished(server) == []
    tab.open()
    tab.settle()
    assert tab.page.locator(".upload").is_hidden()


def never_answered(route: Route) -> None:
    """Bytes are never taken; everything else passes."""
    if route.request.method != "PATCH":
        route.continue_()


def test_sending_can_be_cancelled(tab: Tab, server: Server, big: Path) -> None:
    tab.page.route("**/api/uploads/*", never_answered)
    tab.open()
    tab.page.locator(FILES).set_input_files(big)
    wait_for_text(tab, "Sending big.json")
    assert tab.page.get_by_role("button", name="Import files").is_disabled()
    tab.page.get_by_role("button", name="Cancel").focus()
    tab.page.keyboard.press("Enter")
    wait_for_text(tab, "the server kept nothing of it")
    assert unfinished(server) == []


@contextmanager
def held(server: Server, file: str) -> Iterator[None]:
    """Hold the reader of a file still while the block runs."""
    until_s = time.monotonic() + LONG_MS / 1000
    readers: list[int] = []
    while not readers:
        assert time.monotonic() < until_s, f"nobody has read {file}"
        readers = [pid for pid in children(server.pid) if has_open(pid, file)]
        time.sleep(0.01)
    os.kill(readers[0], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(readers[0], signal.SIGCONT)


def children(pid: int) -> list[int]:
    """Processes that one has started."""
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            pids += map(int, task.read_text().split())
    return pids


def has_open(pid: int, file: str) -> bool:
    """Whether a process has a file of that name open."""
    with suppress(OSError):  # it has just ended, or closed it
        return any(place.readlink().name == file for place in Path(f"/proc/{pid}/fd").iterdir())
    return False


@pytest.mark.long
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one reader")
def test_what_is_read_can_be_looked_at_while_the_rest_is_read(
    tab: Tab, server: Server, big: Path, tmp_path: Path
) -> None:
    for rank in (1, 2):
        runs_made.kineto_file(tmp_path / "job" / f"rank{rank}.json", rank)
    (tmp_path / "job" / "rank0.json").hardlink_to(big)
    tab.open()
    tab.page.locator(FOLDER).set_input_files(tmp_path / "job")
    with held(server, "rank0.json"):
        wait_for_text(tab, "What is read so far")
        row = tab.page.locator("tr[data-state=importing]")
        row.get_by_text("2 of 3 files").wait_for()
        run = tab.page.locator(".upload a").inner_text()
        tab.page.locator(".upload a").click()
        tab.page.wait_for_url("**/overview")
        see_part(tab, run)
    # the page reloads itself once all is read
    tab.page.locator("#live-state.finished").wait_for(timeout=LONG_MS)
    tab.settle()
    assert num_ranks_listed(tab, run) == 3
    assert "Files are still being read" not in tab.page.locator("body").inner_text()
    assert not list(server.runs.glob(".import-*"))


def see_part(tab: Tab, run: str) -> None:
    """The pages of a run of which two ranks are read say so, and show these."""
    tab.page.locator("#live-state.importing").wait_for()
    tab.page.get_by_text("Files are still being read into this run").first.wait_for()
    tab.settle()
    tab.assert_sound()
    assert "2 of 3 files" in tab.page.locator(".about-run").inner_text()
    tab.open(View(run, "timeline").url())
    tab.settle()
    tab.assert_sound()
    assert "2 of 2 ranks" in tab.page.locator("#page").inner_text()
    assert "not aligned" in tab.page.locator("#clock-note").inner_text()

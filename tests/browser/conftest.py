"""One server and one browser for all browser tests; every error in a tab fails its test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browser import FLAGS, MISSING, Server, chromium
from sample_traces import RECORDED
from tests.browser import runs_made
from tests.browser.tabs import DESKTOP, Tab

REPO = Path(__file__).resolve().parents[2]
OpenTab = Callable[..., Tab]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded, imported, hostile and empty runs."""
    folder = tmp_path_factory.mktemp("browser") / "runs"
    folder.mkdir()
    for name in ("healthy", "slow_rank"):
        runs_made.recorded(folder, name)
    runs_made.hostile(folder)
    runs_made.empty(folder)
    return folder


@pytest.fixture(scope="session")
def imported_run(runs: Path) -> str:
    """Name of a run made of torch.profiler traces."""
    return runs_made.imported(runs, runs.parent / "files")


@pytest.fixture(scope="package")
def server(runs: Path) -> Iterator[Server]:
    """Serves `runs`; not to be killed: tests that need that start their own."""
    running = Server(runs).start()
    yield running
    assert running.stop() == 0, running.log.read_text()[-4000:]
    assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window; ended with this folder's last test, because its event
    loop would stand in the way of tests that have one of their own.
    """
    path = chromium()
    if path is None:
        pytest.fail(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def tabs(browser: Browser) -> Iterator[OpenTab]:
    """Opens tabs with fresh profiles; what went wrong in any of them fails the test at its end."""
    opened: list[Tab] = []

    def open_tab(base: str, theme: str = "dark", size: tuple[int, int] = DESKTOP) -> Tab:
        opened.append(Tab(browser, base, theme, size))
        return opened[-1]

    yield open_tab
    problems = [line for tab in opened for line in tab.problems.unexpected]
    for tab in opened:
        tab.close()
    assert not problems, "\n".join(problems[:20])


@pytest.fixture
def tab(tabs: OpenTab, server: Server) -> Tab:
    """One dark desktop tab on the common server."""
    return tabs(server.url)


@pytest.fixture(scope="module")
def live_run(runs: Path) -> Iterator[str]:
    """Name of a run that is being written while the test runs."""
    yield from replayed(runs, "live")


def replayed(runs: Path, name: str) -> Iterator[str]:
    """Write a recorded run again, live, until the generator is closed."""
    command = [sys.executable, "benchmarks/replay.py", RECORDED / "slow_rank", runs / name]
    job = subprocess.Popen([*map(str, command), "--minutes", "5"], cwd=REPO,
                           stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert job.stdout is not None
    try:
        assert job.stdout.readline(), "the replay ended before its first step"
        yield name
    finally:
        job.kill()
        job.wait()
        job.stdout.close()

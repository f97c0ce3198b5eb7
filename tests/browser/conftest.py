"""One server and one browser for all browser tests; every error in a tab fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks.browser import FLAGS, MISSING, Server, chromium
from ingest.imports.worker_command import HERE_VARIABLE
from tests.browser.support import runs_made
from tests.browser.support.profiles import WAIT_MS, Profiles
from tests.browser.support.tabs import DESKTOP, PHONE, Tab

OpenTab = Callable[..., Tab]

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded, a hostile and an empty run."""
    folder = tmp_path_factory.mktemp("browser") / "runs"
    folder.mkdir()
    runs_made.recorded(folder, "slow_rank")
    runs_made.hostile(folder)
    runs_made.empty(folder)
    return folder


@pytest.fixture(scope="session")
def imported_run(runs: Path) -> str:
    """Name of a run made of torch.profiler traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HERE_VARIABLE, "1")  # in this process: test_uploads has others start
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


@pytest.fixture(scope="package")
def profiles(browser: Browser) -> Profiles:
    """Profiles of that browser, used by many tests in turn."""
    return Profiles(browser)


@pytest.fixture
def tabs(profiles: Profiles) -> Iterator[OpenTab]:
    """Opens tabs with a profile each; what went wrong in any of them fails the test at its end.

    Name the server's fixture before this one: then pages are left before their server ends.
    """
    opened: list[Tab] = []

    def open_tab(base: str, theme: str = "dark", size: tuple[int, int] = DESKTOP) -> Tab:
        opened.append(Tab(profiles.take(size == PHONE), base, theme, size))
        return opened[-1]

    yield open_tab
    problems = [line for tab in opened for line in tab.problems.unexpected]
    for tab in opened:
        tab.leave()
        profiles.give_back(tab.profile, tab.base)
    assert not problems, "\n".join(problems[:20])


@pytest.fixture
def tab(tabs: OpenTab, server: Server) -> Tab:
    """One dark desktop tab on the common server."""
    return tabs(server.url)

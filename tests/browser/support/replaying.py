"""A run that is being written, and what a page hears of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Error

from sample_traces import RECORDED
from tests.browser.support.tabs import LEFT, LONGEST_S, Tab
from tests.folders import REPO

_NEWS = """(count) => new Promise((done, fail) => {
    const events = [];
    const timer = setTimeout(() => fail(new Error(`only ${events.length} news`)), 80000);
    window.rankscope.addEventListener('run', (event) => {
        if (events.length && event.detail.version === events.at(-1).version) return;  // its state
        events.push(event.detail);
        if (events.length === count) { clearTimeout(timer); done(events); }
    });
})"""


@contextmanager
def replayed(runs: Path, name: str) -> Iterator[str]:
    """Write a recorded run again, live, while the block runs; from its first finished step on."""
    command = [sys.executable, "benchmarks/replay.py", RECORDED / "slow_rank", runs / name]
    job = subprocess.Popen(
        [*map(str, command), "--minutes", "5"], cwd=REPO, stdout=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    try:
        assert job.stdout.readline(), "the replay ended before its first step"
        yield name
    finally:
        job.kill()
        job.wait()
        job.stdout.close()


def news(tab: Tab, count: int) -> list[dict[str, Any]]:
    """The next news of new data that a page hears, once they have come."""
    deadline_s = time.monotonic() + LONGEST_S
    while True:
        tab.wait_for("window.rankscope?.live.connected")
        try:
            events: list[dict[str, Any]] = tab.page.evaluate(_NEWS, count)
        except Error as error:  # the first index is there: the page reloads itself
            if LEFT not in error.message or time.monotonic() > deadline_s:
                raise
        else:
            return events

"""Uploads in these tests: a big file, choosing and dropping, and what became of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from app.view_state import View
from tests.browser.support.tabs import LONGEST_S, Tab

BIG_BYTES = int(os.environ.get("UPLOAD_MB", "6")) * 10**6
"""UPLOAD_MB=300 for the real thing."""
LONG_MS = 60_000 + BIG_BYTES // 2000
FILES, FOLDER = 'input[type="file"]:not([webkitdirectory])', "input[webkitdirectory]"


def panel_text(tab: Tab) -> str:
    """The text of the upload panel."""
    return tab.page.locator(".upload").inner_text()


def imported_run(tab: Tab, timeout_ms: float = LONG_MS) -> str:
    """Name of the run once it is there."""
    link = tab.page.locator(".upload.done a").first
    link.wait_for(timeout=timeout_ms)
    return link.inner_text()


def wait_for_text(tab: Tab, text: str, timeout_ms: float = LONG_MS) -> None:
    tab.page.locator(".upload").get_by_text(text).first.wait_for(timeout=timeout_ms)


def see_all_ranks(tab: Tab, run: str, num_ranks: int) -> None:
    """Every page of the run is sound and shows this many ranks, the timeline as drawn lanes."""
    tab.page.locator(".upload.done a").first.click()
    tab.page.wait_for_url("**/overview")
    assert num_ranks_listed(tab, run) == num_ranks
    for page in ("overview", "ranks", "timeline"):
        tab.open(View(run, page).url())
        tab.settle()
        tab.assert_sound()
        if page == "ranks" and num_ranks > 1:
            assert f"{num_ranks} ranks" in tab.page.locator("#page").inner_text()
    many = f"{num_ranks} of {num_ranks} rank{'' if num_ranks == 1 else 's'}"
    assert many in tab.page.locator("#page").inner_text()
    assert tab.num_colours(tab.page.locator("#page canvas:visible").first) > 5


def num_ranks_listed(tab: Tab, run: str) -> int:
    """The number of ranks in the list of runs once it has read the run."""
    deadline_s = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline_s:
        answer = tab.page.request.get(f"{tab.base}/api/runs").json()
        [row] = [row for row in answer["runs"] if row["name"] == run]
        if row["num_ranks"] is not None:
            return int(row["num_ranks"])
        tab.page.wait_for_timeout(100)
    raise AssertionError(f"still {row['state']}: {row['problem']}")


def drop(tab: Tab, *paths: Path) -> None:
    """Drop files and folders on the page, as the desktop does."""
    session = tab.context.new_cdp_session(tab.page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})
    tab.page.locator(".drop").wait_for()  # the browser asks the page whether it may be dropped
    session.send("Input.dispatchDragEvent", {"type": "drop", "x": 300, "y": 300, "data": data})
    session.detach()

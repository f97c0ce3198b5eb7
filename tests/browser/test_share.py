"""The shared file: small, opens offline, reads on a phone, and names stay text in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.links import View
from tests.browser import runs_made
from tests.browser.tabs import DESKTOP, PHONE, Tab

LARGEST_BYTES = 2 * 1024 * 1024


def saved(tab: Tab, path: str, into: Path) -> Path:
    """What the Share button of a page saves."""
    tab.open(path)
    tab.settle()
    with tab.page.expect_download() as waiting:
        tab.page.get_by_role("button", name="Share").click()
    file = into / waiting.value.suggested_filename
    waiting.value.save_as(file)
    return file


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_opens_offline_and_tells_the_finding(
    tab: Tab, browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    file = saved(tab, View("slow_rank", "timeline", rank=5, steps=(5, 6)).url(), tmp_path)
    assert file.suffix == ".html"
    assert file.stat().st_size <= LARGEST_BYTES
    with Tab(browser, "file://", size=size) as reader:
        reader.context.set_offline(True)
        asked: list[str] = []
        reader.page.on("request", lambda request: asked.append(request.url))
        reader.page.goto(file.as_uri())
        reader.page.wait_for_timeout(500)
        assert "Rank 5 is slow" in reader.page.locator("body").inner_text()
        assert reader.sticking_out() == []
        assert reader.num_colours(reader.page.locator("canvas").first) > 10
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert reader.problems.unexpected == []


def test_names_in_it_are_text(tab: Tab, browser: Browser, tmp_path: Path) -> None:
    file = saved(tab, View(runs_made.HOSTILE, "timeline").url(), tmp_path)
    with Tab(browser, "file://") as reader:
        reader.page.goto(file.as_uri())
        reader.page.wait_for_timeout(500)
        assert runs_made.HOSTILE in reader.page.locator("body").inner_text()
        assert reader.page.locator("[onclick], [onerror]").count() == 0
        assert reader.problems.unexpected == []

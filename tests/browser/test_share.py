"""The shared file: small, opens offline, reads on a phone, and names stay text in it."""

from __future__ import annotations

from pathlib import Path

from app.view_state import View
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab

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


def opened_offline(tabs: OpenTab, file: Path, size: tuple[int, int] = DESKTOP) -> Tab:
    """The file, drawn in another profile that has no network and requests nothing."""
    reader = tabs("file://", size=size)
    reader.context.set_offline(True)
    urls: list[str] = []
    reader.page.on("request", lambda request: urls.append(request.url))
    reader.page.goto(file.as_uri())
    reader.page.wait_for_function("document.querySelector('#shared-timeline canvas').width > 100")
    reader.settle()
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []
    return reader


def test_saved_on_a_desktop_it_opens_offline_on_a_phone(
    tab: Tab, tabs: OpenTab, tmp_path: Path
) -> None:
    file = saved(tab, View("slow_rank", "timeline", rank=5, steps=(5, 6)).url(), tmp_path)
    assert file.suffix == ".html"
    assert file.stat().st_size <= LARGEST_BYTES
    reader = opened_offline(tabs, file, PHONE)
    assert "Rank 5 is slow" in reader.page.locator("body").inner_text()
    assert reader.sticking_out() == []
    assert reader.num_colours(reader.page.locator("canvas").first) > 10


def test_names_in_it_are_text(tab: Tab, tabs: OpenTab, tmp_path: Path) -> None:
    file = saved(tab, View(runs_made.HOSTILE, "timeline").url(), tmp_path)
    reader = opened_offline(tabs, file)
    assert runs_made.HOSTILE in reader.page.locator("body").inner_text()
    assert reader.page.locator("[onclick], [onerror]").count() == 0

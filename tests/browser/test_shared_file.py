"""The pictures of a shared file in a real browser: drawn, themed and moved without a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from sample_traces import RECORDED

SIZES = {"desk": {"width": 1400, "height": 900}, "phone": {"width": 390, "height": 844}}
COLOURS = """(canvas) => {
  const { width, height } = canvas;
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) {
    seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  }
  return seen.size;
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The slow rank's finding as a file."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copytree(RECORDED / "slow_rank", folder / "runs" / "<script>alert(1)<")
    hub = Hub(folder / "runs")
    content = shared_file(hub, View(hub.names()[0])).content
    hub.close()
    path = folder / "shared.html"
    path.write_bytes(content)
    return path


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "theme"), [("desk", "dark"), ("phone", "light")])
def test_its_pictures_are_drawn_without_a_request(
    browser: Browser, file: Path, size: str, theme: str
) -> None:
    context = browser.new_context(viewport=SIZES[size], color_scheme=theme, offline=True)
    page = context.new_page()
    messages: list[str] = []
    urls: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("request", lambda request: urls.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#shared-timeline canvas")
    page.wait_for_selector("#shared-heat canvas")
    page.wait_for_function("document.querySelector('#shared-timeline canvas').width > 100")
    page.wait_for_timeout(300)
    assert urls == [file.as_uri()]
    assert messages == []
    assert page.locator("html").get_attribute("data-theme") == theme
    assert "Rank 5 is slow" in page.locator(".shared-banner").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for place in ("#shared-timeline canvas", "#shared-heat canvas"):
        assert page.locator(place).first.evaluate(COLOURS) > 4
    context.close()


def test_hands_and_theme_work_without_a_server(browser: Browser, file: Path) -> None:
    context = browser.new_context(viewport=SIZES["desk"], color_scheme="dark", offline=True)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_selector("#shared-heat canvas")
    page.click("#theme")
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.locator("#shared-heat").scroll_into_view_if_needed()
    box = page.locator("#shared-heat canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.58)
    assert page.locator("#heat-note").inner_text().startswith("rank 5, step ")
    lanes = page.locator("#shared-timeline canvas")
    lanes.scroll_into_view_if_needed()
    lanes.focus()
    before = lanes.screenshot()
    page.keyboard.press("w")
    page.wait_for_timeout(500)
    assert lanes.screenshot() != before
    assert messages == []
    context.close()

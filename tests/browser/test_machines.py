"""The page Machines: a map of many hosts, a table of few, what changed, one host over time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.runs.hub import Hub
from app.share.shared_file import shared_file
from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab

SENTENCE = "falls from 1,980 MHz to 1,110 MHz with step 20"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("machines") / "runs"
    folder.mkdir()
    runs_made.machines(folder, "many", 12)
    runs_made.machines(folder, "few", 6)
    running = Server(folder).start()
    yield running
    assert running.stop() == 0, running.log.read_text()[-4000:]


def opened(tabs: OpenTab, server: Server, run: str, size: tuple[int, int] = DESKTOP) -> Tab:
    tab = tabs(server.url, "dark", size)
    tab.open(View(run, "machines").url())
    tab.page.get_by_text(SENTENCE).wait_for()
    tab.settle()
    return tab


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("run", ["many", "few"])
def test_it_is_sound(
    tabs: OpenTab, machines: Server, run: str, size: tuple[int, int], tmp_path: Path
) -> None:
    tab = opened(tabs, machines, run, size)
    tab.assert_sound()
    text = tab.page.locator("#page").inner_text()
    assert "Permission denied: /dev/kmsg" in text
    assert "Ask for kernel.dmesg_restrict = 0" in text
    assert "<i>4 gpu 9 (rank 9)" in text  # names are text


def test_the_furthest_host_is_shown_and_another_can_be_chosen_with_keys(
    tabs: OpenTab, machines: Server
) -> None:
    tab = opened(tabs, machines, "many")
    host = tab.page.get_by_label("Host", exact=True)
    assert host.input_value() == "<i>4"
    canvas = tab.page.locator(".machines-map canvas").first
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        canvas.press(key)
    tab.wait_for("document.querySelector('[data-key=host]').value === '<i>1'")
    tab.wait_for("new URLSearchParams(location.search).get('rank') === '2'")


@pytest.mark.long
def test_few_hosts_are_a_table_with_values(tabs: OpenTab, machines: Server) -> None:
    tab = opened(tabs, machines, "few")
    assert tab.page.locator(".machines-map canvas").count() == 0
    table = tab.page.get_by_label("Metrics by host").first
    assert "least 1,545 MHz" in table.inner_text()
    table.get_by_role("button", name="<i>2").click()
    tab.wait_for("document.querySelector('[data-key=host]').value === '<i>2'")


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_overview_states_what_changed(
    tabs: OpenTab, machines: Server, size: tuple[int, int]
) -> None:
    tab = tabs(machines.url, "light", size)
    tab.open(View("few", "overview").url())
    panel = tab.page.locator(".machine-changes")
    panel.get_by_text(SENTENCE).wait_for()
    tab.settle()
    tab.assert_sound()
    assert "SM clock of <i>4 gpu 9 (rank 9) falls from 1,980 MHz" in panel.inner_text()
    panel.get_by_role("button", name="Show step 20 in the timeline").click()
    tab.page.wait_for_url("**/timeline?**")
    assert "steps=19..21" in tab.page.url


def test_a_change_leads_to_its_step_on_the_timeline(tabs: OpenTab, machines: Server) -> None:
    tab = opened(tabs, machines, "few")
    tab.page.get_by_label("What changed").get_by_role("button", name="20").first.click()
    tab.page.wait_for_url("**/timeline?**")
    assert "steps=19..21" in tab.page.url
    assert "rank=9" in tab.page.url


@pytest.mark.long
@pytest.mark.parametrize("run", ["many", "few"])
def test_a_shared_file_shows_the_page(
    browser: Browser, machines: Server, run: str, tmp_path: Path
) -> None:
    with closing(Hub(machines.log.parent / "runs")) as hub:
        content = shared_file(hub, View(run, "machines")).content
    (tmp_path / "shared.html").write_bytes(content)
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "shared.html").as_uri())
    page.get_by_text(SENTENCE).wait_for()
    text = page.locator("#shared-machines").inner_text()
    assert "Ask for kernel.dmesg_restrict = 0" in text
    assert "<i>4 gpu 9 (rank 9)" in text
    assert page.get_by_label("Host", exact=True).locator("option").all_inner_texts() == ["<i>4"]
    assert page.locator(".machines-map canvas").count() == (2 if run == "many" else 0)
    assert problems == []
    context.close()

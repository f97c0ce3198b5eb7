"""The page Experts in a real browser: map, lines over steps, balance, all-to-alls, ping-pong."""

from __future__ import annotations

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
from tests.expert_runs import EXPERTS, HOT_EXPERT, HOT_LAYER, expert_run
from tests.runs_builder import T0, RunBuilder

CHOSEN = (HOT_LAYER, HOT_EXPERT)
MAP = ".experts-map canvas"
PANEL = ".experts section[aria-label='{}']"


@pytest.fixture(scope="module")
def moe(runs: Path) -> str:
    """Name of a run with a hot expert."""
    return runs_made.indexed(expert_run(runs / "moe"))


def opened(tabs: OpenTab, server: Server, view: View, size: tuple[int, int] = DESKTOP) -> Tab:
    tab = tabs(server.url, "light", size)
    tab.open(view.url())
    tab.page.wait_for_selector(PANEL.format("Ping-pong"))
    tab.settle()
    return tab


@pytest.mark.sampled
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_hot_expert_and_what_it_costs(
    tabs: OpenTab, server: Server, moe: str, size: tuple[int, int]
) -> None:
    tab = opened(tabs, server, View(moe, "experts"), size)
    first = tab.page.locator(".experts-furthest tr").first
    assert first.inner_text().startswith(f"layer {HOT_LAYER}, expert {HOT_EXPERT}")
    assert tab.num_colours(tab.page.locator(MAP)) > 4
    worst = tab.page.locator(PANEL.format("Balance of EP ranks") + " tbody tr").first
    assert worst.locator("td.is-slow").inner_text() == "1.37 x"
    saving = tab.page.locator(PANEL.format("Without imbalance")).inner_text()
    assert "a step would be about" in saving
    assert tab.page.locator(".experts-lamps .is-met").count() == 2
    assert (
        "with at least 2 the ranks always compute"
        in tab.page.locator(".experts-lamps .is-not-met").inner_text()
    )
    tab.assert_sound()


def test_an_expert_is_chosen_with_keys_and_closed_again(
    tabs: OpenTab, server: Server, moe: str
) -> None:
    tab = opened(tabs, server, View(moe, "experts"))
    tab.page.locator(MAP).focus()
    for key in ["ArrowDown", "ArrowDown", *["ArrowRight"] * HOT_EXPERT, "Enter"]:
        tab.page.keyboard.press(key)
    tab.wait_for(f"location.search.includes('expert={HOT_LAYER},{HOT_EXPERT}')")
    said = tab.page.locator(".experts-map [role=status]").inner_text()
    assert said.startswith(f"layer {HOT_LAYER}, expert {HOT_EXPERT}: 3.60 x the mean")
    assert "on rank 1 and 1 more" in said
    section = tab.page.locator(PANEL.format(f"Layer {HOT_LAYER}, expert {HOT_EXPERT} over steps"))
    section.locator("canvas").wait_for()
    section.get_by_role("button", name="Close").click()
    tab.wait_for("!location.search.includes('expert=')")
    section.wait_for(state="hidden")


@pytest.mark.long
def test_routers_of_one_layer_have_rows_and_lines_of_their_own(
    tabs: OpenTab, server: Server, runs: Path
) -> None:
    run = RunBuilder(runs / "two-routers", 1)
    own = {"chunk": -1, "layer": 3, "top_k": 1, "batch_tokens": 10_000, "dropped": 0}
    for step in range(4):
        run.step(0, step, 1_000 * step, 1_000 * step + 900)
        for name, tokens in (("decoder.3", [5_000, 5_000]), ("encoder.3", [9_000, 1_000])):
            run.add("expert_load", 0, step, ts_ns=T0, name=name, tokens=tokens, first_expert=-1,
                    local_experts=-1, **own)  # fmt: skip
    run.rank_files()
    run.publish()
    tab = opened(tabs, server, View(runs_made.indexed(run.folder), "experts"))
    first = tab.page.locator(".experts-furthest button").first
    assert first.inner_text() == "layer 3 (encoder.3), expert 1"
    first.click()
    tab.wait_for("location.search.includes('expert=3,1,1')")
    section = tab.page.locator(PANEL.format("Layer 3 (encoder.3), expert 1 over steps"))
    section.locator("canvas").focus()
    tab.page.keyboard.press("ArrowRight")
    assert "0.20 x the mean" in section.locator("[role=status]").inner_text()
    assert first.get_attribute("aria-pressed") == "true"


def test_a_click_on_the_map_brings_that_expert_into_sight(
    tabs: OpenTab, server: Server, moe: str
) -> None:
    tab = opened(tabs, server, View(moe, "experts"), PHONE)
    box = tab.page.locator(MAP).bounding_box()
    assert box is not None
    left, right, below = 52, 10, 32  # axes
    wide = (box["width"] - left - right) / EXPERTS
    tab.page.mouse.click(
        box["x"] + left + (HOT_EXPERT + 0.5) * wide, box["y"] + box["height"] - below - 4
    )
    tab.wait_for(f"location.search.includes('expert={HOT_LAYER},{HOT_EXPERT}')")
    tab.wait_for("document.querySelectorAll('.experts-chart canvas').length === 2")
    box = "document.querySelector('.experts-chart canvas').getBoundingClientRect()"
    tab.wait_for(f"{box}.top >= 0 && {box}.bottom <= innerHeight")
    pressed = tab.page.locator(".experts-furthest button[aria-pressed=true]")
    assert pressed.inner_text() == f"layer {HOT_LAYER}, expert {HOT_EXPERT}"


def test_a_link_to_an_expert_that_is_not_there(tabs: OpenTab, server: Server, moe: str) -> None:
    tab = tabs(server.url, "dark")
    tab.problems.allow("400")
    tab.open(View(moe, "experts", expert=(HOT_LAYER, EXPERTS)).url())
    tab.page.get_by_text(f"layer {HOT_LAYER} has no expert {EXPERTS}").wait_for()
    tab.page.wait_for_selector(PANEL.format("Ping-pong"))


def test_a_finding_shows_its_expert(tabs: OpenTab, server: Server, moe: str) -> None:
    tab = tabs(server.url, "dark")
    tab.open(View(moe, "overview").url())
    tab.page.get_by_role("link", name="Show me").first.click()
    tab.page.wait_for_url(f"**/experts?*expert={HOT_LAYER},{HOT_EXPERT}*")
    section = tab.page.locator(PANEL.format(f"Layer {HOT_LAYER}, expert {HOT_EXPERT} over steps"))
    section.locator("canvas").wait_for()
    tab.page.wait_for_selector(PANEL.format("Ping-pong"))
    tab.settle()


def test_steps_chosen_on_the_strip_change_the_map(tabs: OpenTab, server: Server, moe: str) -> None:
    tab = opened(tabs, server, View(moe, "experts", steps=(0, 3)))
    text = tab.page.locator(".experts-furthest").inner_text()
    assert text.startswith("No expert gets more or fewer tokens")
    balance = tab.page.locator(PANEL.format("Balance of EP ranks"))
    assert balance.locator("td.is-slow").count() == 0


@pytest.mark.long
def test_a_shared_file_shows_the_page(
    browser: Browser, server: Server, moe: str, tmp_path: Path
) -> None:
    with closing(Hub(server.runs)) as hub:
        content = shared_file(hub, View(moe, "experts", expert=CHOSEN)).content
    (tmp_path / "shared.html").write_bytes(content)
    context = browser.new_context(color_scheme="dark", offline=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "shared.html").as_uri())
    page.wait_for_selector(PANEL.format("Ping-pong"))
    page.locator(".experts-chart canvas").nth(1).wait_for()
    page.locator(".experts-furthest button").nth(1).click()
    page.get_by_text("This file contains only what it shows").wait_for()
    assert problems == []
    context.close()

"""The page Selftest in a real browser: the matrix, its choices, devices; ordinary steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.selftest_runs import selftest_run

MATRIX = ".selftest-matrix"


def slow(test: str, ranks: tuple[int, ...]) -> float:
    return 3.0 if test == "pair" and {rank // 2 for rank in ranks} == {1, 4} else 1.0


@pytest.fixture(scope="module")
def measured(runs: Path) -> str:
    """Name of a self-test of six hosts, the link of two of which is slow."""
    return runs_made.indexed(selftest_run(runs / "measured", 6, 2, slow).folder)


@pytest.mark.long
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_matrix_shows_the_slow_link(
    tabs: OpenTab, server: Server, measured: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, "dark", size)
    tab.open(View(measured, "selftest").url())
    tab.page.wait_for_selector(f"{MATRIX} canvas")
    for theme in ("dark", "light"):
        tab.page.emulate_media(color_scheme=theme)
        tab.wait_for(f"document.documentElement.dataset.theme === '{theme}'")
        tab.settle()
        tab.assert_sound()
    canvas = tab.page.locator(f"{MATRIX} canvas")
    label = canvas.get_attribute("aria-label") or ""
    assert "slowest node0001 and node0004" in label
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        tab.page.keyboard.press(key)
    status = tab.page.locator(f"{MATRIX} [role=status]").inner_text()
    assert status.startswith("node0001 and node0004, ")
    assert "times as long as usual" in status
    assert "1 finding" in tab.page.locator("#findings-count").inner_text()


def test_a_choice_is_in_the_link_and_a_click_selects_a_rank(tab: Tab, measured: str) -> None:
    tab.open(View(measured, "selftest").url())
    tab.page.wait_for_selector(f"{MATRIX} canvas")
    tab.page.get_by_label("which bandwidths").select_option(
        label="pairs inside a host, 64 KiB, by rank"
    )
    tab.wait_for("document.querySelector('.selftest-matrix canvas').ariaLabel.includes('12 ranks')")
    tab.page.locator(".selftest-devices button", has_text="rank 7").click()
    tab.wait_for("window.rankscope.view.rank === 7")
    tab.settle()
    tab.page.reload()
    tab.page.wait_for_selector(f"{MATRIX} canvas")
    tab.wait_for("document.querySelector('.selftest-matrix canvas').ariaLabel.includes('12 ranks')")
    pressed = tab.page.locator('.selftest-devices button[aria-pressed="true"]')
    assert pressed.inner_text() == "rank 7"
    tab.assert_sound()


def test_an_ordinary_run_shows_what_its_steps_achieved(tab: Tab) -> None:
    tab.open(View("slow_rank", "selftest").url())
    tab.page.wait_for_selector(f"{MATRIX} canvas")
    tab.settle()
    text = tab.page.locator("#page").inner_text()
    assert "No self-test was run here." in text
    assert "of ordinary steps achieved" in text
    tab.assert_sound()

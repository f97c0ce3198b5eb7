"""The page Model in a real browser: health of training on a run with statistics of its tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.browser.support.tabs import DESKTOP, PHONE, Tab
from tests.frame_runs import STEPS, frame_run, next_tokens_run
from tests.health_runs import EXPLODING, VANISHING, health_run

MAP, CURVES, HISTOGRAM = ".stat-map canvas", ".curves canvas", ".histogram canvas"


@pytest.fixture(scope="module")
def model_run(runs: Path) -> str:
    """Name of a run with statistics of its tensors."""
    health_run(runs / "model health")
    return runs_made.indexed(runs / "model health")


@pytest.mark.long
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", DESKTOP), ("light", PHONE)], ids=["desktop", "phone"]
)
def test_health_is_drawn_in_both_themes_and_on_a_phone(
    tabs: OpenTab, server: Server, model_run: str, theme: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, theme, size)
    tab.open(View(model_run).url())
    tab.settle()
    tab.page.locator('.topbar a[data-page="model"]').click()
    tab.page.wait_for_selector(MAP)
    tab.settle()
    for place in (MAP, CURVES, HISTOGRAM):
        assert tab.num_colours(tab.page.locator(place)) > 10, place
    assert "RMS of residual stream" in tab.page.locator(".model-map h2").inner_text()
    tab.assert_sound()


def test_an_alarm_is_marked_with_its_source_and_a_link_opens_the_same(
    tab: Tab, model_run: str
) -> None:
    tab.open(View(model_run, "model").url())
    tab.settle()
    tab.page.get_by_label("Tensor").select_option("gradient")
    tab.wait_for("document.querySelector('.model-map h2').innerText.includes('gradients')")
    tab.settle()
    level = tab.page.locator(".model-level abbr")
    assert "below 1e-8" in level.inner_text()
    assert "2309.14322" in (level.get_attribute("title") or "")
    assert f"layer {VANISHING}, attention" in tab.page.locator(".model-histogram h2").inner_text()
    tab.page.get_by_label("Statistic", exact=True).select_option("absmax")
    tab.wait_for("document.querySelector('.model-map h2').innerText.startsWith('Largest mag')")
    tab.page.get_by_label("smoothing").fill("0.6")
    tab.settle()
    canvas = tab.page.locator(MAP)
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        tab.page.keyboard.press(key)
    status = tab.page.locator(".stat-map [role=status]").inner_text()
    tab.page.keyboard.press("Enter")
    row = tab.page.evaluate("window.rankscope.view.model.row")
    assert row
    tab.settle()
    assert tab.page.locator(".model-histogram h2").inner_text().endswith(status.partition(";")[0])
    tab.page.locator('[data-act="copy-link"]').click()
    link = tab.page.evaluate("navigator.clipboard.readText()")
    tab.page.goto(link)
    tab.page.wait_for_selector(MAP)
    tab.settle()
    model = tab.view()["model"]
    assert (model["tensor"], model["stat"], model["row"]) == ("gradient", "absmax", row)
    assert tab.page.get_by_label("smoothing").input_value() == "0.6"
    assert "Largest magnitude of gradients" in tab.page.locator(".model-map h2").inner_text()


def test_the_table_names_the_layer_that_is_not_finite(tab: Tab, model_run: str) -> None:
    model = (("tensor", "residual"), ("stat", "nonfinite"))
    tab.open(View(model_run, "model", model=model).url())
    tab.settle()
    tab.page.locator(".model-map summary").click()
    first = tab.page.locator(".model-map tbody tr").first
    assert first.locator("td").first.inner_text() == f"layer {EXPLODING}"
    assert "one value is enough" in first.inner_text()
    assert tab.num_pixels(tab.page.locator(MAP), "--ramp-more") > 100
    tab.page.locator(".model-map tbody tr").nth(2).locator("a").click()
    tab.wait_for("window.rankscope.view.model.row === '1'")
    tab.assert_sound()


@pytest.mark.long
def test_a_run_without_statistics_explains_how_to_record_them(tab: Tab, imported_run: str) -> None:
    tab.open(View(imported_run).url())
    tab.settle()
    assert tab.page.locator('.topbar a[data-page="model"]').count() == 0
    tab.open(View("slow_rank", "model").url())
    tab.settle()
    text = tab.page.locator(".model-nothing").inner_text()
    assert "TRACE_HOOKS_STATISTICS=100" in text
    assert "no statistics" in text
    tab.page.get_by_role("button", name="Inspect").click()
    tab.wait_for("document.querySelector('.model-nothing')?.innerText.includes('tracer.inspect(')")
    tab.settle()
    tab.assert_sound()


@pytest.fixture(scope="module")
def watched_run(runs: Path) -> str:
    """Name of a run in which attention and MLP outputs were kept."""
    frame_run(runs / "model frames")
    return runs_made.indexed(runs / "model frames")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", DESKTOP), ("light", PHONE)], ids=["desktop", "phone"]
)
def test_every_head_has_a_thumbnail_and_one_is_open(
    tabs: OpenTab, server: Server, watched_run: str, theme: str, size: tuple[int, int]
) -> None:
    tab = tabs(server.url, theme, size)
    tab.open(View(watched_run, "model").url())
    tab.page.wait_for_selector(".matrix canvas")
    tab.settle()
    assert tab.num_colours(tab.page.locator(".tile-grid canvas")) > 20
    assert tab.num_colours(tab.page.locator(".matrix canvas")) > 20
    assert f"step {STEPS[-1]}" in tab.page.locator(".model-tiles header").inner_text()
    tab.assert_sound()


@pytest.mark.long
def test_heads_are_opened_pinned_and_compared_over_steps(tab: Tab, watched_run: str) -> None:
    tab.open(View(watched_run, "model").url())
    tab.page.wait_for_selector(".matrix canvas")
    tab.settle()
    grid = tab.page.locator(".tile-grid canvas")
    grid.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        tab.page.keyboard.press(key)
    titles = tab.page.locator(".model-full h2")
    tab.wait_for(
        "document.querySelector('.model-full h2').innerText === 'attention, layer 1, head 1'"
    )
    tab.page.get_by_role("button", name="Pin", exact=True).click()
    grid.focus()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.wait_for("document.querySelectorAll('.model-full h2').length === 2")
    tab.settle()
    shown = titles.all_inner_texts()
    assert "attention, layer 1, head 1" in shown
    matrix = tab.page.locator(".matrix canvas").first
    matrix.focus()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowDown")
    status = tab.page.locator(".matrix [role=status]").first.inner_text()
    assert status.startswith('query 1 "t1" → key 0 "t0"')
    tab.page.get_by_role("button", name="previous step").click()
    tab.wait_for("document.querySelector('.model-steps output').textContent === 'step 20'")
    tab.page.get_by_label("compare with step").select_option(str(STEPS[0]))
    tab.wait_for(
        "document.querySelector('.model-full header').innerText.includes('step 20 minus step 10')"
    )
    tab.page.locator('[data-act="copy-link"]').click()
    link = tab.page.evaluate("navigator.clipboard.readText()")
    tab.page.goto(link)
    tab.page.wait_for_selector(".matrix canvas")
    tab.settle()
    assert titles.all_inner_texts() == shown
    assert "step 20 minus step 10" in tab.page.locator(".model-full header").first.inner_text()
    tab.assert_sound()


@pytest.mark.long
def test_tensors_without_heads_are_strips(tab: Tab, watched_run: str) -> None:
    tab.open(View(watched_run, "model", model=(("what", "mlp"), ("step", "10"))).url())
    tab.page.wait_for_selector(".matrix canvas")
    tab.settle()
    assert "layers.0.mlp tp=0" in tab.page.locator(".model-full h2").inner_text()
    assert "24 × 48" in tab.page.locator(".model-full header").inner_text()
    assert tab.num_pixels(tab.page.locator(".matrix canvas"), "--ramp-less") > 10
    tab.page.get_by_label("Tensor").select_option("residual")
    tab.page.wait_for_selector(".scatter canvas")
    tab.wait_for("document.querySelector('.model-states p').innerText.includes('of step 10')")
    tab.settle()
    states = tab.page.locator(".scatter canvas")
    assert tab.num_colours(states) > 20
    states.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter", "ArrowUp"):
        tab.page.keyboard.press(key)
    tab.wait_for("document.querySelector('.model-states h2').innerText.includes('layer 1')")
    assert tab.view()["model"]["token"] == "1"
    tab.assert_sound()


@pytest.mark.long
def test_next_tokens_other_runs_and_other_axes_are_drawn(
    tab: Tab, runs: Path, model_run: str, watched_run: str
) -> None:
    health_run(runs / "model compared", tokens=1e6)
    next_tokens_run(runs / "model tokens")
    compared, tokens = (
        runs_made.indexed(runs / name) for name in ("model compared", "model tokens")
    )

    tab.open(View(tokens, "model", model=(("what", "probabilities"), ("token", "3"))).url())
    next_token = "document.querySelector('.model-next')?.innerText ?? ''"
    tab.wait_for(f"({next_token}).includes('Mean loss of these tokens 1.5, perplexity 4.482')")
    tab.wait_for(f"({next_token}).includes('the next is \"w4\", loss 1.5')")
    assert tab.num_colours(tab.page.locator(".loss-bars canvas")) > 3
    true = tab.page.locator(".model-next tr.is-true").inner_text()
    assert true.split()[:3] == ['"w4"', "4", "0.25"]

    tab.open(View(tokens, "model", attempt=0, model=(("what", "logits"),)).url())
    tab.wait_for(f"({next_token}).includes('Mean loss of these tokens 2.079, perplexity 8')")
    assert "0.125" in tab.page.locator(".model-next tr.is-true").inner_text()
    tab.assert_sound()

    about = "document.querySelector('.model-full header')?.innerText ?? ''"
    tab.open(View(tokens, "model").url())
    tab.page.get_by_label("Tensor").select_option("attention")
    for other, less, where in (
        ("attempt 0", str(STEPS[0]), f"minus step {STEPS[0]} of attempt 0"),
        (watched_run, str(STEPS[1]), f"minus step {STEPS[1]} of run {watched_run}"),
    ):
        tab.page.get_by_label("compare with run").select_option(label=other)
        tab.page.get_by_label("compare with step").select_option(less)
        tab.wait_for(f"({about}).includes('{where}')")
        tab.settle()
        assert tab.num_colours(tab.page.locator(".matrix canvas")) > 10
    assert tab.view()["model"]["minus_run"] == watched_run
    tab.assert_sound()

    tab.open(View(compared, "model", model=(("beside", model_run), ("axis", "time"))).url())
    tab.wait_for(
        "document.querySelector('.model-curves header')?.innerText.includes('dashed: layer 0 of')"
    )
    tab.settle()
    assert tab.num_pixels(tab.page.locator(CURVES), "--tp") > 100
    tab.page.get_by_label("over", exact=True).select_option("tokens")
    tab.wait_for(
        "document.querySelector('.model-curves header').innerText.includes('has no axis of tokens')"
    )
    assert tab.view()["model"]["axis"] == "tokens"
    tab.open(View(model_run, "model", model=(("axis", "tokens"),)).url())
    tab.wait_for(
        "document.querySelector('.model-bar')?.innerText.includes('logs no tokens per step')"
    )
    assert tab.page.get_by_label("over", exact=True).input_value() == ""
    assert tab.page.locator('.model-bar option[value="tokens"]').is_disabled()
    tab.assert_sound()

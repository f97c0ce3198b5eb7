"""The page Model of a running job: connected ranks, a watch begun on the page, its frames."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.view_state import View
from benchmarks.browser import Server
from tests.app.server.ranks import JOB_TOKEN, Rank, of_these_ranks
from tests.browser.conftest import OpenTab
from tests.browser.support import runs_made
from tests.frame_runs import NUM_HEADS, NUM_TOKENS, attention
from tests.runs_builder import two_rank_run
from trace_hooks.protocol.frames import Frame, stored

WATCHED, PERTURBED, PROMPTED = RUNS = ("watched", "perturbed", "prompted")


@pytest.fixture(scope="module")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serves jobs that have not ended, and lets their ranks in."""
    runs: Path = tmp_path_factory.mktemp("live model") / "runs"
    runs.mkdir()
    for name in RUNS:
        two_rank_run(runs / name)
        of_these_ranks(runs / name)
        runs_made.indexed(runs / name)
    running = Server(runs, "--job-token", JOB_TOKEN).start()
    yield running
    assert running.stop() == 0, running.log.read_text()[-4000:]


@contextmanager
def two_ranks(server: Server, run: str, **more: Any) -> Iterator[list[Rank]]:
    """Ranks of a running job, connected to the server."""
    ranks = [Rank(f"127.0.0.1:{server.port}", rank, run, **more) for rank in range(2)]
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.agent.stop()


@pytest.mark.long
def test_a_watch_begun_on_the_page_brings_frames_and_shows_its_cost(
    live_server: Server, tabs: OpenTab
) -> None:
    with two_ranks(live_server, WATCHED) as ranks:
        tab = tabs(live_server.url)
        tab.open(View(WATCHED, "model", model=(("view", "inspect"),)).url())
        tab.page.wait_for_selector(".model-controls:visible")
        text = "document.querySelector('.model-controls').innerText"
        tab.wait_for(f"{text}.includes('2 ranks connected')")
        tab.page.get_by_label("layers", exact=True).fill("1-9")
        tab.page.get_by_role("button", name="Watch", exact=True).click()
        tab.wait_for(f"{text}.includes('there is no layer 4 here')")
        tab.page.get_by_label("layers", exact=True).fill("1, 2")
        tab.page.get_by_role("button", name="Watch", exact=True).click()
        tab.wait_for(f"{text}.includes('ranks 0-1: watching 1')")
        assert ranks[1].watches[-1].layers == (1, 2)
        for step in (7, 8):
            _send(ranks, step)
        tab.page.wait_for_selector(".matrix canvas")
        tab.wait_for("document.querySelector('.model-tiles').innerText.includes('step 8')")
        assert "layer 1, head 0" in tab.page.locator(".model-full h2").inner_text()
        assert tab.num_colours(tab.page.locator(".tile-grid canvas")) > 20
        tab.wait_for(f"{text}.includes('2.00 ms a step')")
        tab.page.get_by_role("button", name="end attention", exact=True).click()
        tab.wait_for(f"{text}.includes('ranks 0-1: watching 0')")
        tab.assert_sound()
        tab.page.goto("about:blank")


def _send(ranks: list[Rank], step: int) -> None:
    """Each rank's half of the heads, as its source hands them to the agent."""
    for layer in (1, 2):
        for head in range(NUM_HEADS):
            rank = ranks[head // 3]
            rank.agent.offer(
                Frame(
                    step=step,
                    ts_ns=time.time_ns(),
                    watch="attention",
                    what="attention",
                    layer=layer,
                    name=f"layers.{layer}.attention",
                    shape=(NUM_TOKENS, NUM_TOKENS),
                    head=head,
                    **stored(attention(step, layer, head), "uint8").columns(),
                    shard=f"tp={head // 3}",
                    sample=0,
                )
            )


@pytest.mark.long
def test_a_perturbation_and_a_capture_of_kernels_are_requested_on_the_page(
    live_server: Server, tabs: OpenTab
) -> None:
    with two_ranks(live_server, PERTURBED, world_size=2) as ranks:
        requests: list[dict[str, Any]] = []

        def perturb(value: dict[str, Any]) -> str:
            requests.append(value)
            return "taken"

        for one in ranks:
            live = one.live
            live.about["allow_perturbation"] = lambda: True
            live.about["what"] = lambda: {"layers": [0, 1], "heads": 4}
            live.beats["perturbations"] = lambda: [one for one in requests[-1:] if "end" not in one]
            live.commands.register("perturb", perturb)
            live.commands.register(
                "capture_kernels", lambda value: f"captures {value['steps']} steps"
            )
        tab = tabs(live_server.url)
        tab.open(View(PERTURBED, "model", model=(("view", "perturb"), ("p_layer", "1"))).url())
        tab.page.wait_for_selector(".model-controls form:visible")
        tab.page.get_by_label("strength").fill("0.5")
        tab.page.get_by_role("button", name="Begin").click()
        text = "document.querySelector('.model').innerText"
        tab.wait_for(f"{text}.includes('No loss was logged')")
        tab.wait_for(f"{text}.includes('ranks 0-1: taken')")
        assert (requests[-1]["layer"], requests[-1]["strength"]) == (1, 0.5)
        tab.wait_for("location.search.includes('m.p_strength=0.5')")
        tab.page.get_by_role("button", name="end gaussian").click()
        tab.wait_for(f"!{text}.includes('begins with step')")
        assert requests[-1] == {"end": "gaussian"}
        tab.open(View(PERTURBED, "timeline").url())
        tab.page.get_by_role("button", name="Capture kernels").click()
        tab.page.get_by_role("button", name="Capture", exact=True).click()
        captured = "document.querySelector('.tl-capture').innerText"
        tab.wait_for(f"{captured}.includes('ranks 0-1: captures 3 steps')")
        tab.assert_sound()
        tab.page.goto("about:blank")


@pytest.mark.long
def test_a_prompt_is_requested_and_its_tokens_appear(live_server: Server, tabs: OpenTab) -> None:
    with two_ranks(live_server, PROMPTED) as ranks:
        tab = tabs(live_server.url)
        tab.open(View(PROMPTED, "model", model=(("view", "prompt"),)).url())
        tab.page.wait_for_selector(".model-prompt form:visible")
        tab.problems.allow("status 400|status of 400")  # only two ranks of eight are connected
        text = "document.querySelector('.model-body').innerText"
        run = tab.page.get_by_role("button", name="Run", exact=True)
        run.click()
        tab.wait_for(f"{text}.includes('The prompt is empty')")
        tab.page.get_by_label("prompt", exact=True).fill("5 7")
        run.click()
        tab.wait_for(f"{text}.includes('2 of 8 ranks are connected; a prompt needs all of them')")
        _answer(ranks, ["<b>five</b>", " a", "end"])
        tab.wait_for(f"{text}.includes('After step 7: 3 tokens; training waited 12 ms')")
        tab.page.get_by_role("button", name="·a, 50%", exact=True).click()
        tab.wait_for(f"{text}.includes('Instead of ·a')")
        tab.page.get_by_label("head", exact=True).select_option("head 1")
        assert tab.num_colours(tab.page.locator(".head-strips canvas")) > 3
        assert tab.page.locator(".prompt-tokens b").count() == 0
        tab.assert_sound()
        tab.page.goto("about:blank")


def _answer(ranks: list[Rank], texts: list[str]) -> None:
    """What both ranks show of a prompt of two tokens, as their source hands it to the agent."""
    ids = [[5, "5"], [7, "7"]]
    answers = [(-1, [1.0, 1.0], ids), (-2, [len(texts), 12.0], [""])]
    answers += [
        (n, [0.5, 0.5, 0.2], [[n, text], [n, text], [9, "x"]]) for n, text in enumerate(texts)
    ]
    for number, values, labels in answers:
        _offer(ranks[0], "prompt_token", number, np.array(values), labels=json.dumps(labels))
    for number in range(len(texts)):
        for head, rank in enumerate(ranks):
            looked = np.linspace(0.1, 0.9, 2 + number)[None]
            _offer(
                rank,
                "prompt_attention",
                number,
                looked,
                layer=1,
                row_begin=head,
                shard=f"tp={head}",
            )


def _offer(rank: Rank, what: str, number: int, values: np.ndarray, **more: Any) -> None:
    place = {"layer": -1, "name": "prompt", "step": 7, "watch": "prompt.p1", **more}
    rank.agent.offer(
        Frame(
            ts_ns=time.time_ns(),
            what=what,
            sample=number,
            shape=values.shape,
            **stored(values.astype(np.float32)).columns(),
            **place,
        )
    )

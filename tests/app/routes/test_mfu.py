"""The routes of the section MFU, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from tests.app.server.asgi import Client
from tests.mfu_runs import changed_run
from tests.runs_builder import T0, RunBuilder

URL = "/api/run/job/mfu"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    runs = tmp_path_factory.mktemp("mfu")
    changed_run(runs / "job", 200, 120, gc_ms=6)
    RunBuilder(runs / "bare", 2).rank_files()
    RunBuilder(runs / "over", 2).rank_files(end={"ts_ns": T0, "status": "finished", "error": None})
    with closing(Hub(runs)) as hub:
        for name in ("job", "bare", "over"):
            hub.run(name)
        yield Client(make_app(hub, settings=Settings()))


def test_the_waterfall_of_the_chosen_steps(client: Client) -> None:
    answer = client.get(f"{URL}?steps=100..109&peak=1").json()
    fall = answer["waterfall"]
    assert answer["why"] == "chosen"
    assert (fall["first_step"], fall["last_step"]) == (100, 109)
    assert fall["mfu"] == pytest.approx(0.4)
    bars = {bar["name"]: bar for bar in fall["bars"]}
    assert bars["waiting"]["ranks"] == [{"rank": 1, "ms": pytest.approx(4)}]
    assert sum(bar["share"] for bar in bars.values()) + fall["mfu"] == pytest.approx(1)


def test_without_steps_those_of_the_page_are_shown_and_no_peak_is_assumed(client: Client) -> None:
    answer = client.get(URL).json()
    assert answer["waterfall"]["last_step"] == 199
    assert answer["waterfall"]["mfu"] is None
    assert "--peak-tflops" in answer["waterfall"]["why_no_mfu"]
    assert answer["why"]


def test_the_decline_of_the_whole_run(client: Client) -> None:
    answer = client.get(f"{URL}/change?peak=1").json()
    assert answer["comparison"]["after"] == [120, 199]
    assert "launch skew by garbage collections" in answer["sentence"]


def test_two_windows(client: Client) -> None:
    answer = client.get(f"{URL}/change?steps=10..19&against=0..9&peak=1").json()
    assert answer["sentence"].startswith("MFU did not change beyond its noise")
    assert answer["comparison"]["before"] == [0, 9]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("against=0..9", "against needs steps"),
        ("against=0..9&steps=500..600", "a window has 0 finished steps"),
        ("peak=1e3", "peak is not usable"),
        ("against=9", "give FIRST..LAST"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(client: Client, query: str, message: str) -> None:
    answer = client.get(f"{URL}/change?{query}")
    assert answer.status == 400
    assert message in answer.json()["error"]


def test_a_job_without_finished_steps(client: Client) -> None:
    assert client.get("/api/run/bare/mfu").json() == {
        "waterfall": None,
        "why": "No step is finished yet.",
    }
    change = client.get("/api/run/bare/mfu/change").json()
    assert (change["sentence"], change["comparison"]) == ("No step is finished yet.", None)


def test_a_job_that_ended_without_steps_promises_none(client: Client) -> None:
    why = "No step times were recorded."
    assert client.get("/api/run/over/mfu").json() == {"waterfall": None, "why": why}
    assert client.get("/api/run/over/mfu/change").json()["sentence"] == why

"""Data of the view Perturb, in process: recorded perturbations and losses, damaged requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.views.model.perturbations import recorded_in
from tests.app.in_process import Client
from tests.app.ranks_helpers import unpacked
from tests.runs_builder import T0, RunBuilder
from trace_hooks.protocol.perturbations import Perturbation

NOISE = {"kind": "gaussian", "strength": 0.1, "target": "weights", "layer": 1}
NUM_STEPS = 40


def mark(
    run: RunBuilder, rank: int, step: int, perturbation: dict[str, Any], **outcome: Any
) -> None:
    """A mark as sources/perturbing.py makes it."""
    args = Perturbation.from_json(perturbation).to_json() | outcome
    run.add(
        "marks", rank, step, ts_ns=T0 + step, kind="perturbation", text="p", args=json.dumps(args)
    )


def perturbed_run(folder: Path) -> None:
    """Two ranks, 40 steps: one perturbation that is over, one ended early, one cut off."""
    run = RunBuilder(folder, 2)
    for step in range(NUM_STEPS):
        for rank in range(2):
            loss = math.inf if step == 12 else 5 - step / 20 + (step == 11)
            run.step(rank, step, 100.0 * step, 100.0 * step + 90, loss=None if step == 5 else loss)
    over = NOISE | {"steps": [10, 12]}
    short = NOISE | {"id": "short", "steps": [20, 29]}
    for rank in range(2):
        mark(run, rank, 10, over, event="begin")
        message = {"event": "end", "why": "its last step is done", "num_steps": 3, "num_tensors": 8}
        mark(run, rank, 12, over, **message)
        mark(run, rank, 20, short, event="begin")
        message = {"event": "end", "why": "somebody ended it", "num_steps": 4, "num_tensors": 0}
        mark(run, rank, 24, short, **message)
    mark(run, 1, 35, NOISE | {"steps": [35, 99]}, event="begin")
    run.add("marks", 0, 3, ts_ns=T0, kind="perturbation", text="damaged", args='{"kind": 3}')
    run.add("marks", 0, 3, ts_ns=T0, kind="perturbation", text="damaged", args="[")
    run.add("marks", 0, 3, ts_ns=T0, kind="kernel_capture", text="9 spans are on the timeline")
    run.rank_files(end={"ts_ns": T0 + 10**9, "status": "finished", "error": None})
    run.publish()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("perturbed")
    perturbed_run(runs / "job")
    hub = Hub(runs)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def client(hub: Hub) -> Iterator[Client]:
    client = Client(make_app(hub))
    yield client
    client.close()


def test_perturbations_are_put_together_from_the_marks_of_their_ranks(client: Client) -> None:
    answer = client.get("/api/run/job/model/perturbations").json()
    by_name = {perturbation["key"]: perturbation for perturbation in answer["perturbations"]}
    assert list(by_name) == ["0.gaussian.10", "0.short.20", "0.gaussian.35"]
    over, short, cut = by_name.values()
    assert (over["first"], over["last"], over["ranks"], over["num_tensors"]) == (10, 12, "0-1", 16)
    assert (over["state"], over["why"]) == ("over", "its last step is done")
    assert (short["last"], short["why"]) == (23, "somebody ended it")
    assert (cut["state"], cut["last"], cut["ranks"]) == ("cut off", NUM_STEPS - 1, "1")
    assert answer["attempts"] == [0]


def test_one_goes_on_until_every_rank_that_began_it_has_ended() -> None:
    args = Perturbation.from_json(NOISE | {"steps": [4, 9]}).to_json()
    rows = [
        {"attempt": 0, "rank": rank, "step": 4, "args": json.dumps(args | {"event": "begin"})}
        for rank in (0, 1)
    ]
    ended = args | {"event": "end", "num_steps": "many", "num_tensors": None, "why": ["x"]}
    (one,) = recorded_in([*rows, {**rows[0], "step": 6, "args": json.dumps(ended)}])
    assert one.to_json(True, 7)["state"] == "under way"
    assert one.to_json(True, 7)["last"] == 7
    assert one.to_json(True, 70)["last"] == 9
    assert one.ended == {0: 6}


def test_losses_are_those_logged(client: Client) -> None:
    answer = client.get("/api/run/job/model/losses", params={"steps": "4..13", "width": 1000})
    arrays, meta = unpacked(answer.content)
    assert arrays["first"].tolist() == [4, 6, 7, 8, 9, 10, 11, 12, 13]  # none in step 5
    assert arrays["mean"][6] == pytest.approx(5 - 11 / 20 + 1)
    assert np.isnan(arrays["mean"][7])
    assert arrays["bad"].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert (meta["num_steps"], meta["steps"]) == (9, [4, 13])
    arrays, meta = unpacked(
        client.get("/api/run/job/model/losses", params={"steps": "90..99"}).content
    )
    assert (arrays["mean"].size, meta["steps"]) == (0, None)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("job/model/losses?width=0", "width is 0"),
        ("job/model/losses?width=99999999", "give 1 to"),
        ("job/model/losses?steps=9..3", "ends before it begins"),
        ("job/model/losses?attempt=x", "whole number"),
        ("nope/model/losses", "there is no run 'nope'"),
        ("nope/model/perturbations", "there is no run 'nope'"),
    ],
)
def test_damaged_requests_are_explained(client: Client, path: str, sentence: str) -> None:
    answer = client.get(f"/api/run/{path}")
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_captures_and_connected_ranks(client: Client) -> None:
    (one,) = client.get("/api/run/job/model/captures").json()["captures"]
    assert one == {"attempt": 0, "rank": 0, "step": 3, "text": "9 spans are on the timeline"}
    answer = client.get("/api/connected?run=job").json()
    assert (answer["may_ask"], answer["connected"], answer["asked"]) == (True, 0, [])

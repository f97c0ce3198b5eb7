"""The routes of the page Experts, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from tests.app.ranks_helpers import unpacked
from tests.app.server.asgi import Client
from tests.expert_runs import EXPERTS, HOT_EXPERT, HOT_FROM, HOT_LAYER, LAYERS, STEPS, expert_run

URL = "/api/run/moe/experts"


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    runs = tmp_path_factory.mktemp("experts")
    expert_run(runs / "moe")
    with closing(Hub(runs)) as hub:
        hub.run("moe")
        yield Client(make_app(hub, settings=Settings()))


def test_the_map_of_the_chosen_steps(moe: Client) -> None:
    arrays, meta = unpacked(moe.get(f"{URL}?steps={HOT_FROM}..{STEPS - 1}").body)
    assert (meta["experts"], len(meta["layers"])) == (EXPERTS, LAYERS)
    assert (meta["steps"], meta["why"]) == ([HOT_FROM, STEPS - 1], "chosen")
    assert int(np.argmax(arrays["load"])) == HOT_LAYER * EXPERTS + HOT_EXPERT
    before, _ = unpacked(moe.get(f"{URL}?steps=0..{HOT_FROM - 1}").body)
    assert set(before["code"].tolist()) == {1}


def test_without_steps_those_of_the_page_are_shown(moe: Client) -> None:
    _, meta = unpacked(moe.get(URL).body)
    assert meta["steps"][1] == STEPS - 1
    assert meta["why"]


def test_imbalance_and_one_expert_over_all_steps(moe: Client) -> None:
    arrays, meta = unpacked(moe.get(f"{URL}/steps").body)
    assert meta["window"] == [0, STEPS - 1]
    assert len(arrays["step"]) == STEPS
    one, about = unpacked(moe.get(f"{URL}/expert?layer={HOT_LAYER}&expert={HOT_EXPERT}").body)
    assert about == {"layer": HOT_LAYER, "expert": HOT_EXPERT}
    np.testing.assert_allclose(one["load"][HOT_FROM:] - 1, arrays["worst"][HOT_FROM:], rtol=1e-5)


def test_ranks(moe: Client) -> None:
    answer = moe.get(f"{URL}/ranks?steps=20..39").json()
    assert answer["num_ranks"] == 4
    assert answer["read_steps"] == [20, 39]
    assert answer["saving"]["ms"] > 0


def test_a_job_without_experts(client: Client) -> None:
    for path in ("", "/steps"):
        arrays, _ = unpacked(client.get(f"/api/run/job/experts{path}").body)
        assert all(not len(one) for one in arrays.values())
    ranks = client.get("/api/run/job/experts/ranks").json()
    assert (ranks["times"], ranks["ping_pong"], ranks["saving"]) == ([], [], None)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?attempt=-1", "whole number"),
        ("/steps?steps=x", "steps"),
        ("/ranks?steps=9..3", "ends before it begins"),
        ("/expert?layer=1", "give a layer and an expert"),
        ("/expert?layer=1&expert=8", "layer 1 has no expert 8; it has experts 0 to 7"),
        ("/expert?layer=7&expert=0", "no load of experts was recorded in layer 7"),
        ("/expert?layer=1&expert=0&router=1", "layer 1 has no router 1"),
        ("/expert?layer=-1&expert=0", "no load of experts was recorded in layer -1"),
        ("/expert?layer=-2&expert=0", "whole number"),
        ("/expert?layer=x&expert=0", "whole number"),
    ],
)
def test_wrong_parameters_are_explained(moe: Client, query: str, words: str) -> None:
    answer = moe.get(URL + query)
    assert answer.status == 400
    assert words in answer.json()["error"]

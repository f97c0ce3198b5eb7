"""Perturbations by way of the server: each rank answers, and hostile ones go to no rank."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.settings import Settings
from tests.app.server.ranks import JOB_TOKEN, Rank, post, ranks, state
from tests.app.server.served import Served, served
from tests.trace_hooks.tiny_models import ListedSteps, TinyGPT
from tests.waiting import wait_until
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.context import SourceContext, SourceOptions
from trace_hooks.sources.perturbation.perturbation import Perturbing

pytestmark = pytest.mark.torch

REQUEST = {"kind": "gaussian", "target": "weights", "layer": 1, "steps": [5, 9], "strength": 0.1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(
        tmp_path_factory.mktemp("runs"), Settings(port=0, job_token=JOB_TOKEN)
    ) as running_server:
        yield running_server


def perturb(server: Served, run: str, args: Any) -> tuple[int, Any]:
    return post(server, run, {"name": "perturb", "args": args}, "/api/command")


def perturbing(model: TinyGPT, rank: Rank, allow: bool) -> Perturbing:
    recorder = Recorder()
    options = SourceOptions(allow_perturbation=allow)
    context = SourceContext(recorder, ListedSteps(recorder), options, live=rank.live)
    context.models.roots.put(model)
    source = Perturbing(context)
    source.install()
    return source


def test_each_rank_answers_for_itself(server: Served) -> None:
    model = TinyGPT()
    with ranks(server, "mine") as job_ranks:
        sources = [
            perturbing(model, rank, allow)
            for rank, allow in zip(job_ranks, (True, False), strict=True)
        ]
        status, answer = perturb(server, "mine", REQUEST)
        assert (status, answer["taken_back"]) == (200, True)
        texts = {ack["rank"]: (ack["ok"], ack["text"]) for ack in answer["acks"]}
        assert texts[0] == (True, "taken: gaussian 0.1 on weights of layer 1, steps 5 to 9")
        assert texts[1][0] is False
        assert "allow_perturbation=True" in texts[1][1]
        _, answer = perturb(server, "mine", REQUEST | {"layer": 7, "id": "far"})
        assert "this rank has no layer 7; its layers: 0, 1" in json.dumps(answer["acks"])
        _, answer = perturb(server, "mine", {"end": "gaussian"})
        assert [ack["ok"] for ack in answer["acks"]] == [False, False]  # taken back by itself
        for source in sources:
            source.uninstall()


def test_those_that_have_the_layer_begin_together(server: Served) -> None:
    request = {name: value for name, value in REQUEST.items() if name != "steps"}
    with ranks(server, "stages") as job_ranks:
        got: list[tuple[int, Any]] = []
        for number, one in enumerate(job_ranks):
            live, layers = one.live, [2 * number, 2 * number + 1]
            live.about["what"] = lambda layers=layers: {"layers": layers, "heads": 4}
            live.about["allow_perturbation"] = lambda: True
            live.beats["perturbations"] = lambda number=number: [
                value for at, value in got if at == number
            ]
            live.commands.register(
                "perturb", lambda value, number=number: str(got.append((number, value)))
            )
            one.rank_state.step = 7 + number
        wait_until(lambda: connected(server, "stages")["layers"] == [0, 1, 2, 3])
        wait_until(lambda: connected(server, "stages")["step"] == 8)
        status, answer = perturb(server, "stages", request | {"layer": 2, "num_steps": 5})
        assert (status, answer["taken_back"], answer["silent"]) == (200, False, [])
        assert [ack["rank"] for ack in answer["acks"]] == [1]
        ((rank, sent),) = got
        assert (rank, sent) == (1, answer["args"])
        first, last = sent["steps"]
        assert first > 8
        assert last == first + 4
        wait_until(lambda: connected(server, "stages")["asked"])
        content = connected(server, "stages")
        assert (content["allow_perturbation"], content["ranks"], content["heads"]) == (
            "0-1",
            "0-1",
            4,
        )
        assert [(one["ranks"], one["perturbation"]["id"]) for one in content["asked"]] == [
            ("1", "gaussian")
        ]
        job_ranks[0].agent.stop()
        wait_until(lambda: connected(server, "stages")["connected"] == 1)
        status, answer = perturb(server, "stages", request | {"layer": 2, "num_steps": 5})
        assert (status, "1 of 2 ranks are connected" in answer["error"]) == (400, True)
        assert len(got) == 1
        status, answer = perturb(server, "stages", request | {"num_steps": 10**9})
        assert (status, "num_steps is 1000000000" in answer["error"]) == (400, True)


def connected(server: Served, run: str) -> Any:
    return json.loads(server.ask(f"/api/connected?run={run}")[1])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"strength": float("nan")}, "NaN is not a number"),
        ({"extent": 10**9}, "extent is 10000"),
        ({"layer": 10**9}, "layer is 1000000000"),
        ({"kind": "eval('1')"}, "kind is"),
        ({"code": "import os"}, "has no 'code'"),
        ({"steps": [0, 10**9]}, "steps are"),
        ({"end": "gaussian"}, "has no 'end'"),
    ],
)
def test_hostile_requests_go_to_no_rank(server: Served, more: dict[str, Any], words: str) -> None:
    with ranks(server, "hostile") as job_ranks:
        for one in job_ranks:
            one.live.commands.register("perturb", lambda value: "it came through")
        status, answer = perturb(server, "hostile", REQUEST | more)
        assert (status, words in answer["error"]) == (400, True), answer
        assert state(server, "hostile")["connected"] == 2

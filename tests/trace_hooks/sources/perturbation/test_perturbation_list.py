"""Which perturbations a rank takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trace_hooks.sources.perturbation.perturbable import (
    NOISE,
    WEIGHTS,
    perturbable,
    run,
)
from tests.trace_hooks.tiny_models import TinyGPT, seeded

pytestmark = pytest.mark.torch


def test_refusals():
    model = seeded(TinyGPT)
    with perturbable(model, allow=False) as (traced, source):
        text = source.ask(WEIGHTS).text
        assert text.startswith("this job does not allow changes to its model; start it with allow_")
        command = {"type": "command", "id": 4, "name": "perturb", "args": WEIGHTS}
        ack = traced.live.commands.answer(command)
        assert ack == {"type": "ack", "id": 4, "ok": False, "text": text}
    with perturbable(model) as (traced, source):
        answer = traced.live.commands.answer

        def refused(value: Any) -> str:
            ack = answer(command | {"args": value})
            assert ack is not None
            assert not ack["ok"]
            return str(ack["text"])

        traced.rank_state.step = 4
        assert refused(WEIGHTS).startswith("step 2 has begun on this rank, which is in step 4")
        later = WEIGHTS | {"steps": [5, 6]}
        assert refused(later | {"layer": 9}) == "this rank has no layer 9; its layers: 0, 1"
        assert "extent is 1000000000" in refused(later | {"extent": 10**9})
        assert "strength is nan" in refused(later | {"strength": float("nan")})
        assert "is an object" in refused("exit()")
        assert "no perturbation x" in refused({"end": "x"})
        assert "id is ['w']" in refused({"end": ["w"]})
        assert answer(command | {"args": later})["ok"]  # type: ignore[index]
        assert "another perturbation has the id w" in refused(later)
        for number in range(7):
            assert source.ask(later | {"id": f"p{number}"}).ok
        assert refused(later | {"id": "p8"}).startswith("8 perturbations are in progress")
        assert traced.live.about["allow_perturbation"]() is True


def test_one_is_ended_on_request():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(WEIGHTS | {"steps": [1, 100]})
        source.ask(NOISE | {"id": "r", "target": "residual", "layer": 0, "steps": [1, 100]})
        run(traced, source, model, 3)
        assert len(model.layers[0]._forward_hooks) == 2
        assert source.ask({"end": "w"}).ok
        assert source.ask({"end": "r"}).ok
        assert not source.ask({"end": "w"}).ok
        run(traced, source, model, 5, 3)
        assert len(model.layers[0]._forward_hooks) == 1
        assert not source._active
        assert [row["step"] for row in traced.rows("marks")] == [1, 1, 3, 3]

"""Perturbations of small real models: the requested change, in its steps, and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trace_hooks.sources.perturbation.perturbable import (
    NOISE,
    WEIGHTS,
    differences,
    differing,
    optimizer_inputs,
    parameters,
    perturbable,
    run,
)
from tests.trace_hooks.tiny_models import TinyGPT, batch, seeded, train
from trace_hooks.protocol.perturbations import of_mark
from trace_hooks.recording import guard

pytestmark = pytest.mark.torch


def test_losses_are_bitwise_equal_without_a_request():
    plain = train(seeded(TinyGPT), 6)
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        assert run(traced, source, model) == plain


@pytest.mark.long
def test_strength_0_is_bitwise_nothing_and_one_above_is_not():
    plain_model = seeded(TinyGPT)
    plain = train(plain_model, 6)
    for strength in (0, 0.5):
        for more in ({}, {"target": "residual"}, {"kind": "uniform"}, {"extent": 5}):
            model = seeded(TinyGPT)
            with perturbable(model) as (traced, source):
                assert source.ask(WEIGHTS | more | {"strength": strength}).ok
                losses = run(traced, source, model)
            same = losses == plain and not differing(parameters(model), parameters(plain_model))
            assert same is (strength == 0), (strength, more)
            assert losses[:2] == plain[:2]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "uniform"},
        {"kind": "offset", "module": "mlp"},
        {"extent": 3},
        {"kind": "ablate", "strength": None, "module": "attention"},
        {"kind": "bit_flip", "strength": None},
        {"kind": "bit_flip", "strength": None, "bit": 30},
        {"kind": "bit_flip", "strength": None, "extent": 7, "bit": 31},
    ],
)
def test_weights_are_changed_in_forward_and_backward_and_back_before_the_optimizer(
    changes: dict[str, Any],
):
    model = seeded(TinyGPT)
    states: dict[tuple[int, str], dict[str, Tensor]] = {}

    def seen(number: int, when: str) -> None:
        states[number, when] = parameters(model)

    with perturbable(model) as (traced, source):
        assert source.ask(WEIGHTS | changes).ok
        with optimizer_inputs() as inputs:
            clean = parameters(model)
            run(traced, source, model, seen=seen)
        names = list(clean)
    for number in range(6):
        changed = states[number, "before"]
        assert not differing(changed, states[number, "after"])
        received = {names[index]: value for index, value in inputs[number].items()}
        touched = differing(changed, received)
        if number in (2, 3):
            assert touched
            module = changes.get("module") or ""
            assert all(name.startswith(f"layers.1.{module}") for name in touched)
            few = changes.get("extent", 1 if changes.get("kind") == "bit_flip" else None)
            for name in touched if few else ():
                assert 0 < differences(changed[name], received[name]) <= few
        else:
            assert not touched
    assert not source._kept


def test_what_the_optimizer_gets_is_what_the_step_before_left():
    model = seeded(TinyGPT)
    left: list[dict[str, Tensor]] = []
    with perturbable(model) as (traced, source), optimizer_inputs() as inputs:
        source.ask(WEIGHTS)
        for number in range(6):
            run(traced, source, model, number + 1, number)
            left.append(parameters(model))
    for number in range(1, 6):
        for at, name in enumerate(left[0]):
            assert not differences(inputs[number][at], left[number - 1][name]), (number, name)


def test_weights_come_back_where_no_optimizer_does():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        run(traced, source, model, 1)
        clean = parameters(model)
        steps_of = {"step_end": 2, "step_begin": 4, "uninstall": 6}
        for leave, number in steps_of.items():
            assert source.ask(WEIGHTS | {"id": leave, "steps": [number, number]}).ok
            traced.rank_state.step = number
            source.step_begin()
            assert differing(parameters(model), clean)
            traced.rank_state.step += leave == "step_begin"
            getattr(source, leave)()
            assert not differing(parameters(model), clean), leave


def test_a_script_that_goes_on_after_an_error_has_its_weights():
    model = seeded(TinyGPT)
    with perturbable(model, errors=True) as (traced, source):
        run(traced, source, model, 1)
        clean = parameters(model)
        assert source.ask(WEIGHTS).ok
        assert source.ask(WEIGHTS | {"id": "b", "kind": "bit_flip", "strength": None, "bit": 40}).ok
        traced.rank_state.step = 2
        guard.attempt("tracer.perturbing.step_begin", source.step_begin)
        assert "perturbing" in str(guard.account.errors)
        assert not differing(parameters(model), clean)
        assert not source._active
        texts = [row["text"] for row in traced.rows("marks")]
        assert [text.split()[2] for text in texts] == ["begins", "begins", "ended,", "ended,"]
        assert "has failed on this rank" in source.ask(WEIGHTS).text


def test_the_random_state_of_the_job_is_untouched():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        for at, target in enumerate(("weights", "activations", "residual")):
            assert source.ask(WEIGHTS | {"id": f"g{at}", "target": target}).ok
            flip = {"kind": "bit_flip", "strength": None, "bit": 1}
            assert source.ask(WEIGHTS | {"id": f"b{at}", "target": target} | flip).ok
        torch.manual_seed(5)
        before = torch.get_rng_state()
        run(traced, source, model)
        assert torch.equal(torch.get_rng_state(), before)


def test_begin_and_end_are_marks():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(WEIGHTS | {"module": "mlp"})
        run(traced, source, model)
        begin, end = traced.rows("marks")
    assert begin["kind"] == end["kind"] == "perturbation"
    assert (begin["step"], end["step"]) == (2, 3)
    assert begin["text"] == (
        "perturbation w begins (gaussian 0.5 on weights of layer 1, mlp, steps 2 to 3)"
    )
    assert "its last step is done: it changed tensors 8 times in 2 steps" in end["text"]
    args = json.loads(begin["args"]), json.loads(end["args"])
    assert [one["event"] for one in args] == ["begin", "end"]
    assert (args[1]["why"], args[1]["num_steps"]) == ("its last step is done", 2)
    assert args[1]["num_tensors"] == 8
    assert of_mark(args[0]) == of_mark(args[1])
    assert of_mark(args[0]).steps == (2, 3)


def test_a_copy_of_the_model_is_not_perturbed():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        source.ask(NOISE | {"target": "residual", "layer": 0})
        traced.rank_state.step = 2
        source.step_begin()
        twin = copy.deepcopy(model)
        assert not torch.equal(twin(batch(0)), model(batch(0)))


def test_weights_that_no_hook_would_restore_are_left():
    model = seeded(TinyGPT)
    with perturbable(model) as (traced, source):
        clean = parameters(model)
        assert source.ask(WEIGHTS | {"steps": [0, 3]}).ok
        traced.rank_state.step = 0
        source.step_begin()
        assert not differing(parameters(model), clean)
        assert "no torch optimizer has stepped" in traced.rows("marks")[-1]["text"]

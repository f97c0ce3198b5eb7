"""Outputs of modules and of attention are changed on their way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trace_hooks.sources.perturbation.perturbable import (
    HEAD,
    NOISE,
    WEIGHTS,
    perturbable,
    run,
    with_heads,
)
from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of, seeded, train
from trace_hooks.sources.perturbation import perturbed_outputs

pytestmark = pytest.mark.torch


def test_an_error_in_an_output_leaves_the_output_and_ends_everything(
    monkeypatch: pytest.MonkeyPatch,
):
    plain = train(seeded(TinyGPT), 6)
    model = seeded(TinyGPT)

    def broken(*args: Any) -> Tensor:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(perturbed_outputs, "perturbed", broken)
    with perturbable(model, errors=True) as (traced, source):
        source.ask(WEIGHTS | {"id": "zero", "strength": 0})
        source.ask(NOISE | {"target": "residual", "layer": 0})
        assert run(traced, source, model) == plain
        assert not source._active
        assert not model.layers[0]._forward_hooks or len(model.layers[0]._forward_hooks) == 1


@pytest.mark.parametrize(
    ("target", "module", "path"),
    [
        ("activations", "mlp", "layers.1.mlp"),
        ("activations", "attention", "layers.1.attention"),
        ("residual", None, "layers.1"),
    ],
)
def test_outputs_are_changed_in_the_window_and_gradients_pass(
    target: str, module: str | None, path: str
):
    model = seeded(TinyGPT)
    outputs: list[Tensor] = []
    model.get_submodule(path).register_forward_hook(lambda m, a, out: outputs.append(out))
    with perturbable(model) as (traced, source):
        request = {"kind": "offset", "strength": 2.0, "extent": 10, "steps": [1, 1]}
        assert source.ask(request | {"target": target, "module": module, "layer": 1}).ok
        grads = []
        for number in range(3):
            traced.rank_state.step = number
            source.step_begin()
            model.zero_grad()
            loss_of(model, batch(0)).backward()
            grads.append(model.embedding.weight.grad.clone())
            source.step_end()
        first, second, third = outputs
        moved = second - first
        assert torch.equal(first, third)
        assert (moved != 0).sum() == 10
        torch.testing.assert_close(moved[moved != 0], torch.full((10,), 2.0))
        assert torch.equal(grads[0], grads[2])
        assert not torch.equal(grads[0], grads[1])
        model.eval()
        traced.rank_state.step = 1
        source.ask(request | {"id": "again", "steps": [2, 2], "target": target, "layer": 1})
        traced.rank_state.step = 2
        source.step_begin()
        model(batch(0))
        assert torch.equal(outputs[-1], first)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_forward_gets_the_same_noise(reentrant: bool):
    request = WEIGHTS | {"target": "activations", "steps": [0, 5]}
    losses = []
    for mode in (None, reentrant):
        model = seeded(lambda m=mode: TinyGPT(reentrant=m))
        with perturbable(model) as (traced, source):
            assert source.ask(request).ok
            losses.append(run(traced, source, model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("kind", ["ablate", "flat_attention", "gaussian"])
def test_a_head_of_attention(kind: str):
    model = seeded(with_heads)
    original = functional.scaled_dot_product_attention
    strength = {"strength": 0.1} if kind == "gaussian" else {}
    with perturbable(model) as (traced, source):
        assert source.ask(HEAD | strength | {"kind": kind, "steps": [1, 1]}).ok
        for number in range(3):
            traced.rank_state.step = number
            source.step_begin()
            loss_of(model, batch(0)).backward()
            source.step_end()
        assert functional.scaled_dot_product_attention is original
    module = model.layers[1].attention
    plain, changed, after = module.mixed
    assert torch.equal(plain, after)
    others = [0, 2, 3]
    assert torch.equal(plain[:, others], changed[:, others])
    assert not torch.equal(plain[:, 1], changed[:, 1])
    if kind == "ablate":
        assert not changed[:, 1].any()
    if kind == "flat_attention":
        number = torch.arange(1, 6)[:, None]
        even = module.value[:, 0].cumsum(1) / number
        torch.testing.assert_close(changed[:, 1], even)
    assert torch.equal(model.layers[0].attention.mixed[0], model.layers[0].attention.mixed[1])

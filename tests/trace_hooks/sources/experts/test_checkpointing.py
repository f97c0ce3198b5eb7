"""Loads of experts under activation checkpointing: gradients are those without the hooks."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from tests.trace_hooks.sources.experts.tiny_moe import (
    NUM_EXPERTS,
    TOP_K,
    TinyMoE,
    by_hand,
    end_step,
)
from tests.trace_hooks.tiny_models import batch, loss_of, seeded, tracing
from trace_hooks.sources.experts import router_calls
from trace_hooks.sources.experts.routers import own_router

STEPS = 3


def save_choices(context, op, *args, **kwargs):
    """A policy that saves what topk returns: a hook that calls it, too, must not be counted."""
    is_saved = op is torch.ops.aten.topk.default
    return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE


CHECKPOINTING = {
    "none": {},
    "plain": {"reentrant": False},
    "reentrant": {"reentrant": True},
    "selective": {
        "reentrant": False,
        "context_fn": partial(create_selective_checkpoint_contexts, save_choices),
    },
}

READERS = {
    "indices": {"chosen": 1},
    "logits of the gate": {"top_k": TOP_K},
    "own function": {"chosen": lambda output: output[2].topk(TOP_K, -1).indices},
    "own loss": {"chosen": 1, "aux_loss": lambda output: output[2].square().mean()},
}


def scores(router_scores, _indices):
    return router_scores


def gradients(model: TinyMoE, step: int) -> list[torch.Tensor]:
    model.zero_grad()
    loss_of(model, batch(step)).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.sampled
@pytest.mark.torch
@pytest.mark.parametrize("most_kept", [0, 1 << 20], ids=["counted at once", "counted at the end"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("mode", CHECKPOINTING)
def test_gradients_are_bitwise_equal_and_each_choice_counts_once(
    mode: str, reader: str, most_kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_calls, "MAX_KEPT", most_kept)

    def make() -> TinyMoE:
        return TinyMoE(form=scores, **CHECKPOINTING[mode])

    plain = seeded(make)
    expected = [gradients(plain, step) for step in range(STEPS)]
    model = seeded(make)
    with tracing("modules", "experts") as traced:
        traced.watch(model)
        for router in model.routers():
            module = router.gate if reader == "logits of the gate" else router
            how = dict.fromkeys(("chosen", "top_k", "local", "bias", "aux_loss")) | READERS[reader]
            traced.source("experts").add(own_router(module, NUM_EXPERTS, **how))
        for step in range(STEPS):
            traced.rank_state.step = step
            traced.source("experts").step_begin()
            found = gradients(model, step)
            end_step(traced)
            assert all(map(torch.equal, found, expected[step]))
        rows = traced.rows("expert_load")
    calls = 1 if mode == "none" else 2  # of each router in a step
    assert {(row["step"], row["layer"]): row["tokens"] for row in rows} == {
        (step, layer): by_hand(router.seen[calls * step])
        for step in range(STEPS)
        for layer, router in enumerate(model.routers())
    }

"""Statistics of attention heads of small real models."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trace_hooks.sources.tensors import explicit_steps
from tests.trace_hooks.sources.tensors.explicit_steps import (
    rows_of,
    step,
    trained,
    trained_as_without,
)
from tests.trace_hooks.tiny_models import TinyGPT, batch, idle_forwards, loss_of, seeded, train
from trace_hooks.recording import guard
from trace_hooks.sources.tensors.attention import CALLS
from trace_hooks.sources.tensors.attention_statistics import AttentionStatistics
from trace_hooks.sources.tensors.tensor_samples import MAX_COPIES


class HeadsAttention(nn.Module):
    """Four query heads that share two of keys and values, causal."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key, self.value = nn.Linear(width, width // 2), nn.Linear(width, width // 2)
        self.given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, x):
        query = self.query(x).unflatten(-1, (4, 2)).transpose(1, 2)
        key, value = (
            part(x).unflatten(-1, (2, 2)).transpose(1, 2) for part in (self.key, self.value)
        )
        self.given.append((query.detach(), key.detach()))
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return mixed.transpose(1, 2).flatten(-2)


def with_heads() -> TinyGPT:
    model = TinyGPT()
    for layer in model.layers:
        layer.attention = HeadsAttention()
    return model


watching = partial(explicit_steps.watching, kind=AttentionStatistics)
rows = partial(rows_of, table="attention_stats")


def eager(query, key):
    """Greatest logit and mean entropy of each head, the plain way."""
    key = key.repeat_interleave(2, dim=1)
    logits = (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).double()
    hidden = torch.ones(logits.shape[-2:]).triu(1).bool()
    logits = logits.masked_fill(hidden, -torch.inf)
    weights = logits.softmax(-1)
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1)
    return logits.amax((0, 2, 3)).tolist(), entropy.mean((0, 2)).tolist()


def test_numbers_are_those_of_eager_attention_for_every_head_and_layer():
    model = seeded(with_heads)
    with watching(model) as traced:
        trained(traced, model, 2)
        selected = rows(traced, step=1)
        assert [(row["layer"], row["head"]) for row in selected] == [
            (layer, head) for layer in range(2) for head in range(4)
        ]
        for row in selected:
            logits, entropies = eager(*model.layers[row["layer"]].attention.given[1])
            assert row["max_logit"] == pytest.approx(logits[row["head"]], rel=1e-5)
            assert row["entropy"] == pytest.approx(entropies[row["head"]], rel=1e-5)
            assert row["name"] == f"layers.{row['layer']}.attention"
            assert row["rows"] == 2 * 5


@pytest.mark.sampled
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_losses_are_bitwise_equal_and_recomputation_counts_once(reentrant: bool | None):
    with trained_as_without(watching, reentrant) as traced:
        assert sorted(row["layer"] for row in rows(traced, step=0)) == [0, 1]


def test_only_the_first_training_forward_of_a_due_step_is_looked_at():
    model = TinyGPT()
    with watching(model, every=2) as traced:
        for number in range(4):
            step(traced, number)
            idle_forwards(model)
            for microbatch in range(3):
                traced.rank_state.microbatch = microbatch
                loss_of(model, batch(microbatch)).backward()
        selected = rows(traced, layer=0)
        assert [(row["step"], row["microbatch"]) for row in selected] == [(0, 0), (2, 0)]


def test_without_statistics_nobody_listens_and_nothing_stays_behind():
    plain = functional.scaled_dot_product_attention
    model = TinyGPT()
    with watching(model, every=0) as traced:
        assert functional.scaled_dot_product_attention is plain
        trained(traced, model)
        assert rows(traced) == []
    with watching(model):
        assert functional.scaled_dot_product_attention is not plain
    assert functional.scaled_dot_product_attention is plain
    assert CALLS._listeners == ()


def test_logits_that_are_not_finite_have_no_number():
    model = seeded(TinyGPT)
    with torch.no_grad():
        model.layers[0].attention.qkv.weight.fill_(torch.nan)
    with watching(model) as traced:
        trained(traced, model, 1)
        (row,) = rows(traced, layer=0)
        assert (row["max_logit"], row["entropy"]) == (None, None)


def test_training_goes_on_when_a_hook_raises(monkeypatch):
    plain = train(seeded(TinyGPT), 3)

    def fail(*args):
        raise RuntimeError("injected")

    monkeypatch.setitem(guard.HOOKS, "attention_statistics.call", fail)
    model = seeded(TinyGPT)
    with watching(model, errors=True) as traced:
        assert trained(traced, model) == plain
        assert guard.account.errors == {"attention_statistics.call": 1}
        assert rows(traced) == []


def test_what_nobody_takes_is_dropped_and_counted():
    model = TinyGPT()
    with watching(model) as traced:
        trained(traced, model, MAX_COPIES + 3)
        assert traced.recorder.dropped > 0
        assert {row["step"] for row in rows(traced)} == set(range(MAX_COPIES))

"""Sources that compute in a forward do not disturb selective activation checkpointing, which finds
what it has saved by counting operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from tests.trace_hooks import watched_models
from tests.trace_hooks.sources.tensors import explicit_steps
from tests.trace_hooks.tiny_models import TinyGPT, Tracing, seeded, train
from trace_hooks.sources.tensors.attention_statistics import AttentionStatistics
from trace_hooks.sources.tensors.statistics import Statistics

SAVED = (
    torch.ops.aten.bmm.default,
    torch.ops.aten.mul.Tensor,
    torch.ops.aten._to_copy.default,
)


def save_products(context, op, *args, **kwargs):
    policies = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
    return policies[0] if op in SAVED else policies[1]


class Wide(nn.Module):
    """Computes in float64, by operations that the policy saves."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, dtype=torch.float64) / 8)

    def forward(self, x_BSD):
        wide = x_BSD.double()
        product = torch.bmm(wide, self.weight.expand(len(wide), -1, -1))
        return (product * wide).float()


class Selective(TinyGPT):
    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.mlp = Wide()

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            how = partial(create_selective_checkpoint_contexts, save_products)
            x = checkpoint(layer, x, use_reentrant=False, context_fn=how)
        return self.head(self.norm(x))


@contextmanager
def captured(model: nn.Module) -> Iterator[Tracing]:
    watches = [{"what": what} for what in ("attention", "qkv", "mlp", "residual", "logits")]
    with watched_models.watching(model, *watches) as (traced, _):
        yield traced


SOURCES: dict[str, Callable[[nn.Module], AbstractContextManager[Tracing]]] = {
    "statistics": partial(explicit_steps.watching, kind=Statistics),
    "attention_statistics": partial(explicit_steps.watching, kind=AttentionStatistics),
    "inspection": captured,
}


@pytest.mark.torch
@pytest.mark.parametrize("source", SOURCES)
def test_losses_are_bitwise_equal(source: str) -> None:
    plain = train(seeded(Selective), 3)
    model = seeded(Selective)
    with SOURCES[source](model) as traced:
        assert explicit_steps.trained(traced, model, 3) == plain

"""Models that a test perturbs, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.trace_hooks.tiny_models import TinyGPT, Tracing, batch, loss_of, tracing
from trace_hooks.sources.perturbation.perturbation import Perturbing

pytestmark = pytest.mark.torch


NOISE = {"kind": "gaussian", "strength": 0.5, "steps": [2, 3]}


WEIGHTS = {**NOISE, "id": "w", "target": "weights", "layer": 1}


HEAD = {"id": "h", "target": "activations", "module": "attention", "layer": 1, "head": 1}


@contextmanager
def perturbable(
    model: nn.Module, allow: bool = True, errors: bool = False
) -> Iterator[tuple[Tracing, Perturbing]]:
    """A model that may be perturbed; steps are begun by `run`."""
    with tracing("modules", errors=errors, allow_perturbation=allow) as traced:
        source = Perturbing(traced.context)
        source.install()
        traced.watch(model)
        try:
            yield traced, source
        finally:
            source.uninstall()


Seen = Callable[[int, str], object]


def run(
    traced: Tracing,
    source: Perturbing,
    model: nn.Module,
    steps: int = 6,
    first: int = 0,
    seen: Seen | None = None,
) -> list[float]:
    """Losses of steps as `train` makes them; `seen(step, "before" | "after")` the backward pass."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for number in range(first, steps):
        traced.rank_state.step = number
        source.step_begin()
        if seen:
            seen(number, "before")
        loss = loss_of(model, batch(number))
        loss.backward()
        if seen:
            seen(number, "after")
        optimizer.step()
        optimizer.zero_grad()
        source.step_end()
        losses.append(loss.item())
    return losses


def parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    """Names of tensors of which any bit differs."""
    return {name for name in one if differences(one[name], other[name])}


def differences(one: Tensor, other: Tensor) -> int:
    return int((one.view(torch.int32) != other.view(torch.int32)).sum())


@contextmanager
def optimizer_inputs() -> Iterator[list[dict[int, Tensor]]]:
    """Weights as each optimizer step gets them, after the hook of the source."""
    found: list[dict[int, Tensor]] = []

    def keep(optimizer: Any, args: Any, kwargs: Any) -> None:
        own = [p for group in optimizer.param_groups for p in group["params"]]
        found.append({at: p.detach().clone() for at, p in enumerate(own)})

    handle = register_optimizer_step_pre_hook(keep)
    try:
        yield found
    finally:
        handle.remove()


class Heads(nn.Module):
    """Causal attention with 4 heads over 2 of keys."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, width)
        self.mixed: list[Tensor] = []
        self.value: Tensor | None = None

    def forward(self, x):
        query = self.q(x).unflatten(-1, (4, -1)).transpose(1, 2)
        key, self.value = self.kv(x).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, self.value, is_causal=True, enable_gqa=True
        )
        self.mixed.append(mixed)
        return mixed.transpose(1, 2).flatten(-2)


def with_heads() -> TinyGPT:
    model = TinyGPT()
    for layer in model.layers:
        layer.attention = Heads(8)
    return model

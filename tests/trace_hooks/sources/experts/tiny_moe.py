"""Small real models with experts, and the loads that a test counts by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.trace_hooks.tiny_models import Tracing, train

NUM_EXPERTS, TOP_K, WIDTH = 4, 2, 8


class Router(nn.Module):
    """Returns (weights, integers) (N, K) each, or what `form` makes of (scores, integers)."""

    def __init__(self, form: Callable[[Tensor, Tensor], object] | None = None) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, NUM_EXPERTS, bias=False)
        self.register_buffer("bias", torch.zeros(NUM_EXPERTS))
        self.form = form
        self.seen: list[Tensor] = []  # indices of every forward, as a test counts them

    def forward(self, x_ND):
        scores = self.gate(x_ND).softmax(-1)
        weights, indices = (scores + self.bias).topk(TOP_K, -1)
        self.seen.append(indices)
        return weights, indices, self.form(scores, indices) if self.form else None


class MoE(nn.Module):
    def __init__(self, form: Callable[[Tensor, Tensor], object] | None = None) -> None:
        super().__init__()
        self.router = Router(form)
        self.experts = nn.Parameter(torch.randn(NUM_EXPERTS, WIDTH, WIDTH) / WIDTH)

    def forward(self, x):
        weights, indices, _ = self.router(x.flatten(0, -2))
        chosen = self.experts[indices]  # (N, K, D, D)
        mixed = torch.einsum("nd,nkde,nk->ne", x.flatten(0, -2), chosen, weights)
        return mixed.view_as(x)


class Block(nn.Module):
    def __init__(self, form: Callable[[Tensor, Tensor], object] | None = None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.moe = MoE(form)

    def forward(self, x):
        return x + self.moe(self.norm(x))


class TinyMoE(nn.Module):
    """`reentrant`: mode of activation checkpointing per block, None without; `how`: its options."""

    def __init__(
        self,
        reentrant: bool | None = None,
        form: Callable[[Tensor, Tensor], object] | None = None,
        **how: object,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, WIDTH)
        self.layers = nn.ModuleList(Block(form) for _ in range(2))
        self.head = nn.Linear(WIDTH, 17)
        self.reentrant = reentrant
        self.how = how

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            if self.reentrant is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.reentrant, **self.how)
        return self.head(x)

    def routers(self) -> list[Router]:
        return [layer.moe.router for layer in self.layers]


def register(traced: Tracing, model: TinyMoE, **how: object) -> None:
    """As `tracer.router` does it for each of the routers."""
    from trace_hooks.sources.experts.routers import own_router

    described = {"chosen": None, "top_k": None, "local": None, "bias": None, "aux_loss": None}
    for router in model.routers():
        traced.source("experts").add(own_router(router, NUM_EXPERTS, **(described | how)))


def trained(traced: Tracing, model: nn.Module, steps: int = 1) -> list[float]:
    """tiny_models.train with one step of the recorder for each of its own."""

    def begin(step: int) -> None:
        if step:
            end_step(traced)
        traced.rank_state.step = step
        traced.source("experts").step_begin()

    losses = train(model, steps, begin=begin)
    end_step(traced)
    return losses


def end_step(traced: Tracing) -> None:
    traced.source("experts").step_end()
    traced.source("experts").poll()


def by_hand(indices: Tensor, num_experts: int = NUM_EXPERTS) -> list[int]:
    """Tokens by expert, one choice at a time."""
    counts = [0] * num_experts
    for choice in indices.flatten().tolist():
        if 0 <= choice < num_experts:
            counts[choice] += 1
    return counts

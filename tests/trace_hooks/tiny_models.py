"""Small real models and a small real step counter, for the tests of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trace_hooks.recording import guard
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.sources import load_source
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext, SourceOptions
from trace_hooks.sources.training.module_parts import unwrap

VOCABULARY = 17


PARTS = [
    "embedding",
    "layers.0",
    "layers.0.attention",
    "layers.0.mlp",
    "layers.1",
    "layers.1.attention",
    "layers.1.mlp",
    "norm",
    "head",
]
"""Names of TinyGPT's parts, in the order in which its forward pass enters them."""


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.out(functional.scaled_dot_product_attention(query, key, value))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class TinyGPT(nn.Module):
    """`reentrant`: mode of activation checkpointing per block, None without."""

    def __init__(self, blocks: int = 2, width: int = 8, reentrant: bool | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)
        self.reentrant = reentrant

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            if self.reentrant is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(self.norm(x))


class ListedSteps:
    """Steps that writes down its borders and numbers the recorder's steps."""

    def __init__(self, recorder: Recorder) -> None:
        self.explicit = False
        self.between: Callable[[], object] | None = None
        self.recorder = recorder
        self.begun: list[int] = []  # ns
        self.ended: list[int] = []
        self.tokens = 0

    def begin(self, number: int | None = None, at_ns: int | None = None) -> None:
        assert at_ns is not None
        self.recorder.rank_state.step = len(self.begun) if number is None else number
        self.begun.append(at_ns)

    def end(self, at_ns: int | None = None) -> None:
        assert at_ns is not None
        self.ended.append(at_ns)

    def extend(self, at_ns: int) -> None:
        self.ended[-1] = at_ns

    def postpone(self, at_ns: int) -> None:
        self.begun[-1] = at_ns

    def step_back(self) -> None:
        if len(self.begun) > len(self.ended):
            self.recorder.rank_state.step = len(self.ended) - 1

    def go_on(self) -> None:
        if len(self.begun) > len(self.ended):  # otherwise the job numbers its steps itself
            self.recorder.rank_state.step = len(self.begun) - 1

    def forget(self) -> None:
        self.begun.pop()

    def count_tokens(self, tokens: int) -> None:
        self.tokens += tokens


class Span(NamedTuple):
    kind: str
    name: str
    row: SpanRow
    mode: str
    chunk: int


class Tracing:
    """A bare recorder with some sources installed."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.recorder = Recorder()
        self.rank_state = self.recorder.rank_state
        self.steps = ListedSteps(self.recorder)
        self.context = SourceContext(self.recorder, self.steps, SourceOptions(**options))
        self.live = self.context.live
        self.sources: list[Source] = [load_source(name)(self.context) for name in names]

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    def watch(self, model: nn.Module, stage: int | None = None) -> None:
        for source in self.sources:
            source.instrument(model, stage)

    def spans(self, *kinds: str, whole: bool = False) -> list[Span]:
        """Spans by begin, outer before inner; `whole`: also of whole models and backward passes."""
        flat, sites = self.recorder.spans, self.recorder.sites
        rows = [SpanRow(*flat[i : i + SPAN_FIELDS]) for i in range(0, len(flat), SPAN_FIELDS)]
        rows.sort(key=lambda row: (row.begin_ns, row.depth))
        found = (
            Span(sites[r.site].kind, sites[r.site].name, r, sites[r.site].mode, sites[r.site].chunk)
            for r in rows
        )
        return [
            span
            for span in found
            if not kinds or span.kind in kinds
            if whole or span.mode != "eager" or span.name not in self._whole
        ]

    @property
    def _whole(self) -> set[str]:
        roots = [unwrap(model) for model, _ in self.context.models.roots.values()]
        with_parts = [model for model in roots if next(model.children(), None) is not None]
        return {"backward", *(type(model).__name__ for model in with_parts)}

    def rows(self, table: str) -> list[dict]:
        return [row for name, row in self.recorder.rows if name == table]


@contextmanager
def tracing(*names: str, errors: bool = False, **options: Any) -> Iterator[Tracing]:
    """Sources installed for a while; fails where a hook raised unless `errors` are expected.

    `options`: fields of SourceOptions.
    """
    guard.disabled.clear()
    guard.account.errors.clear()
    found = Tracing(*names, **options)
    for source in found.sources:
        source.install()
    try:
        yield found
    finally:
        for source in reversed(found.sources):
            source.uninstall()
        for source in found.sources:
            source.finish()
        seen = dict(guard.account.errors)
        guard.disabled.clear()
        guard.account.errors.clear()
    assert errors or not seen, seen


def batch(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (2, 5), generator=generator)


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def train(
    model: nn.Module,
    steps: int = 3,
    run: Callable | None = None,
    begin: Callable[[int], None] = lambda _step: None,
) -> list[float]:
    """Losses of a few steps of AdamW on fixed batches; `run` is called in place of `model`, and
    `begin` with the number of each step before it.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    call = model if run is None else run
    for step in range(steps):
        begin(step)
        loss = loss_of(call, batch(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def idle_forwards(model: nn.Module) -> None:
    """Forward passes that train nothing: in evaluation mode, and without gradients."""
    model.eval()
    model(batch(0))
    model.train()
    with torch.no_grad():
        model(batch(0))


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(7)
    return make()

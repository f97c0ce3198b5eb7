"""Prompts of small real models between steps of their training, in which they leave no trace."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trace_hooks.tiny_models import VOCABULARY, TinyGPT, Tracing, batch, loss_of, tracing
from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.frames import Frame, decode
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.prompting import prompting
from trace_hooks.sources.prompting.prompted_model import PromptedModel
from trace_hooks.sources.prompting.prompting import Prompting
from trace_hooks.sources.tensors.attention import CALLS

pytestmark = pytest.mark.torch

REQUEST = {"id": "p1", "text": "3 1 4 1 5", "tokens": 4, "layers": [0, 1], "step": 1}


class Restless(nn.Module):
    """A model that draws random numbers and changes its buffers in every forward, also in eval."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = TinyGPT()
        self.norm = nn.BatchNorm1d(VOCABULARY)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(3))
        self.register_buffer("replaced", torch.zeros((), dtype=torch.int64), persistent=False)
        self.modes: list[bool] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.modes.append(self.training)
        self.calls += torch.rand(3)
        self.replaced = self.replaced + 1
        if tokens.shape[0] == 1:
            self.register_buffer("cache", torch.ones(2))
        logits = self.norm(self.inner(tokens).transpose(1, 2)).transpose(1, 2)
        noise = random.random() + np.random.rand()
        return self.drop(logits) + 1e-3 * noise * functional.dropout(logits, 0.5, training=True)


@contextmanager
def prompted(model: nn.Module, **how: Any) -> Iterator[tuple[Tracing, Prompting, list[Frame]]]:
    """A model in training that may be prompted; its frames, as they come over the wire."""
    with tracing("modules", allow_content=True) as traced:
        source = Prompting(traced.context)
        frames: list[Frame] = []
        traced.steps.explicit = True
        traced.live.on_frame = lambda frame: frames.append(decode(frame.encode()))
        source.install()
        traced.watch(model)
        source.register(PromptedModel(model, **how))
        try:
            yield traced, source, frames
        finally:
            source.uninstall()


def states() -> list[Any]:
    numpys = np.random.get_state()
    switches = [torch.is_autocast_cache_enabled(), torch.is_grad_enabled()]
    numbers = [torch.get_rng_state().tolist(), random.getstate(), numpys[1].tolist(), numpys[2]]
    return [*numbers, *switches]


def trained(
    traced: Tracing | None, model: nn.Module, before: Callable[[int], object] = int
) -> tuple[list[float], list[Any]]:
    """Losses and random states of 4 steps; `before(step)` is called when each has begun."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, foreach=False)
    losses, seen = [], []
    for number in range(4):
        if traced is not None:
            traced.rank_state.step = number
        before(number)
        loss = loss_of(model, batch(number))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if traced is not None and traced.steps.between is not None:
            traced.steps.between()
        losses.append(loss.item())
        seen.append([states(), {n: b.clone() for n, b in model.named_buffers()}])
    return losses, seen


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(7)
    return kind()


def begin(source: Prompting, request: dict[str, Any]) -> Callable[[int], object]:
    """Ask in step 0, and have it go."""

    def ask(step: int) -> None:
        if step == 0:
            assert source.ask(request).startswith(
                f"runs after step {request['step']}, this rank is"
            )
            source.ask({"go": request["id"]})

    return ask


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_prompt_leaves_no_trace_in_the_training(temperature: float) -> None:
    plain_losses, plain = trained(None, made(Restless))
    model = made(Restless)
    with prompted(model) as (traced, source, frames):
        request = REQUEST | {"temperature": temperature}
        losses, seen = trained(traced, model, begin(source, request))
        assert len([f for f in frames if f.what == "prompt_token"]) == 6
        assert losses == plain_losses
        for (state, buffers), (other, others) in zip(seen, plain, strict=True):
            assert state == other
            assert set(buffers) == set(others)
            assert all(torch.equal(buffers[name], others[name]) for name in others)
        assert model.modes == [True, True, False, False, False, False, True, True]
        assert all(module.training for module in model.modules())
        assert CALLS._listeners == ()
        forwards = Counter(span.name for span in traced.spans("forward"))
        assert set(forwards.values()) == {4}  # those of training
        (mark,) = traced.rows("marks")
        assert mark["kind"] == "prompt"
        assert "4 tokens; training waited" in mark["text"]
        assert json.loads(mark["args"])["tokens"] == 4
        assert [span.name for span in traced.spans("host")] == ["prompt"]


def test_tokens_probabilities_and_attention_are_those_of_the_model() -> None:
    model = made(TinyGPT)
    with prompted(model, decode=lambda ids: f"<{ids[0]}>") as (traced, source, frames):
        begin(source, REQUEST)(0)
        traced.rank_state.step = 1
        traced.steps.between()
        tokens = {f.sample: f for f in frames if f.what == "prompt_token"}
        ids = [3, 1, 4, 1, 5]
        assert json.loads(tokens[-1].labels or "") == [[one, f"<{one}>"] for one in ids]
        for number in range(4):
            with torch.no_grad():
                chances = model(torch.tensor([ids]))[0, -1].softmax(-1)
            labels = json.loads(tokens[number].labels or "")
            assert labels[0] == [int(chances.argmax()), f"<{int(chances.argmax())}>"]
            assert len(labels) == 1 + VOCABULARY
            order = [one for one, _ in labels]
            np.testing.assert_allclose(tokens[number].values(), chances[order], rtol=2e-3)
            attention = [f for f in frames if (f.what, f.sample) == ("prompt_attention", number)]
            assert [f.layer for f in attention] == [0, 1]
            for one in attention:
                assert one.shape == (1, len(ids))
                np.testing.assert_allclose(one.values().sum(-1), 1, rtol=2e-3)
            ids.append(labels[0][0])
        assert tokens[-2].values()[0] == 4
        assert json.loads(tokens[-2].labels or "") == [""]


@pytest.fixture(scope="module")
def plain_losses() -> list[float]:
    return trained(None, made(TinyGPT))[0]


@pytest.mark.parametrize(
    ("how", "text", "words"),
    [
        ({}, "eval('1')", "has given no tokenizer"),
        ({}, f"3 {VOCABULARY}", "token 17 is not among"),
        ({}, "1 " * 513, "the prompt has 513 tokens"),
        ({"longest": 8}, "1 1 1 1 1", "5 tokens and 4 new ones are more than the 8"),
        ({"encode": lambda text: 1 / 0}, "a", "ZeroDivisionError"),
        ({"encode": lambda text: ["a"]}, "a", "not return a list of token ids"),
        ({"forward": lambda ids: {}["x"]}, "1", "KeyError"),
        ({"forward": lambda ids: torch.full((1, 1, 9), torch.nan)}, "1", "not finite"),
        ({"forward": lambda ids: None}, "1", "no rank returned logits"),
    ],
)
def test_what_goes_wrong_is_shown_and_training_goes_on(
    how: dict[str, Any], text: str, words: str, plain_losses: list[float]
) -> None:
    model = made(TinyGPT)
    with prompted(model, **how) as (traced, source, frames):
        losses, _ = trained(traced, model, begin(source, REQUEST | {"text": text}))
        assert losses == plain_losses
        assert words in json.loads(frames[-1].labels or "")[0]
        (mark,) = traced.rows("marks")
        assert "0 tokens, ended early" in mark["text"]
        assert words not in mark["text"]
        assert not traced.rank_state.prompting_thread


def test_a_prompt_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompting, "LIMIT_S", -1.0)
    model = made(TinyGPT)
    with prompted(model) as (traced, source, frames):
        trained(traced, model, begin(source, REQUEST))
        assert "took longer" in json.loads(frames[-1].labels or "")[0]


def test_what_a_rank_refuses() -> None:
    model = made(TinyGPT)
    with prompted(model) as (traced, source, frames):
        traced.rank_state.step = 1
        with pytest.raises(ValueError, match="step 1 has begun"):
            source.ask(REQUEST)
        source.ask(REQUEST | {"step": 2})
        with pytest.raises(ValueError, match="another prompt is in progress"):
            source.ask(REQUEST | {"step": 3})
        with pytest.raises(ValueError, match="no such prompt"):
            source.ask({"go": "p2"})
        assert source.ask({"drop": "p1"}) == "dropped"
        assert traced.steps.between is None
        source.ask(REQUEST | {"step": 2})
        traced.rank_state.step = 3  # it was left out
        traced.steps.between()
        assert (frames, traced.steps.between) == ([], None)
        stages = ParallelLayout.from_sizes(pp=2)
        for owner, name, value, words in (
            (traced.steps, "explicit", False, "with tracer.step"),
            (traced.rank_state, "layout", stages, "not supported: this rank"),
        ):
            before = getattr(owner, name)
            setattr(owner, name, value)
            with pytest.raises(ValueError, match=words):
                source.ask(REQUEST | {"step": 9})
            setattr(owner, name, before)
        secretive = Prompting(SourceContext(traced.recorder, traced.steps))
        with pytest.raises(ValueError, match="allow_content=True"):
            secretive.ask(REQUEST | {"step": 9})
        source._model = None
        with pytest.raises(ValueError, match=r"call tracer.prompts"):
            source.ask(REQUEST | {"step": 9})


def test_without_the_message_to_go_nothing_runs() -> None:
    model = made(TinyGPT)
    with prompted(model) as (traced, source, frames):
        trained(traced, model, lambda step: source.ask(REQUEST) if step == 0 else None)
        assert "not all ranks got the message" in json.loads(frames[-1].labels or "")[0]

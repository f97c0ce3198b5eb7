"""Micro-batches of gradient accumulation."""

import pytest
import torch
from torch import nn

from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of, tracing
from trace_hooks.sources.training.micro_batches import accumulated


@pytest.mark.parametrize(
    ("noted", "model"),
    [
        ([7, 0, 7, 0], 7),
        ([7, 0] * 5, 7),
        ([7, 0], 0),  # one a step
        ([7, 0, 8, 0], 0),  # two models
        ([7, 7, 0], 0),  # a loss of two forwards
        ([7, 0, 7], 0),
        ([0, 7, 0, 7], 0),
        ([7, 0, 0, 7], 0),
        ([], 0),
    ],
)
def test_only_forwards_each_with_its_pass_are_micro_batches(noted: list[int], model: int) -> None:
    assert accumulated(noted) == model


def numbers(traced, kind: str) -> list[int]:
    return [span.row.microbatch for span in traced.spans(kind, whole=True) if span.row.depth == 0]


def test_they_are_numbered_from_the_second_step_on() -> None:
    with tracing("modules", "optimizer") as traced:
        model = TinyGPT()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            traced.source("modules").step_begin()
            for micro in range(2):
                loss_of(model, batch(2 * step + micro)).backward()
            assert traced.rank_state.microbatch == -1
            optimizer.step()
        assert numbers(traced, "forward") == [-1, -1, 0, 1, 0, 1]
        assert numbers(traced, "backward") == [-1, -1, 0, 1, 0, 1]
        blocks = [span for span in traced.spans("backward") if span.name == "layers.0"]
        assert [span.row.microbatch for span in blocks] == [-1, -1, 0, 1, 0, 1]
        assert set(numbers(traced, "optimizer")) == {-1}


@pytest.mark.parametrize("order", [(0,), (0, 1)], ids=["one a step", "two models"])
def test_what_is_none_has_no_number(order: tuple[int, ...]) -> None:
    with tracing("modules", "optimizer") as traced:
        models = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in order]
        optimizer = torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.1)
        for _ in range(3):
            traced.source("modules").step_begin()
            for which in order:
                models[which](torch.ones(2, 4)).sum().backward()
            optimizer.step()
        assert set(numbers(traced, "forward") + numbers(traced, "backward")) == {-1}

"""A model is used for a moment, and its state restored bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from trace_hooks.sources.prompting.prompt_state import device_of, undisturbed


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(1))

    def train(self, mode: bool = True) -> Counting:
        raise AssertionError("a model may override train")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.register_buffer("cache", x.detach())
        return self.norm(x)


def test_everything_is_as_before() -> None:
    model = Counting()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    with undisturbed([model]):
        assert not model.norm.training
        assert not torch.is_grad_enabled()
        model(torch.rand(4, 3) + random.random() + np.random.rand())
        model.norm.running_mean += 1
    assert model.training
    assert model.norm.training
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    assert {name: value.tolist() for name, value in model.named_buffers()} == {
        name: value.tolist() for name, value in buffers.items()
    }


def test_it_is_restored_after_an_error() -> None:
    model = nn.Dropout()
    with pytest.raises(RuntimeError, match="inside"), undisturbed([model]):
        raise RuntimeError("inside")
    assert model.training


def test_the_device_of_models() -> None:
    assert device_of([nn.ReLU(), nn.Linear(1, 1)]) == torch.device("cpu")
    assert device_of([nn.ReLU()]) == torch.device("cpu")

"""Models are found by the parameters of an optimizer."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from tests.trace_hooks.sources.training.test_modules import hooks_on, names
from tests.trace_hooks.tiny_models import PARTS, TinyGPT, batch, loss_of, tracing, train
from trace_hooks.sources.training.model_discovery import Discovery, live_modules, outermost


@pytest.fixture
def models() -> Iterator[list[nn.Module]]:
    """What is found while the hooks are installed."""
    found: list[nn.Module] = []
    discovery = Discovery(found.append)
    discovery.install()
    yield found
    discovery.uninstall()


def test_the_outermost_module_that_holds_the_parameters(models: list[nn.Module]) -> None:
    model, frozen = nn.Sequential(TinyGPT()), TinyGPT()
    torch.optim.SGD(model.parameters(), lr=0.1)
    torch.optim.SGD(model.parameters(), lr=0.1)
    assert models == [model]
    assert frozen not in models


def test_an_optimizer_from_before_is_seen_when_it_steps() -> None:
    model, found = TinyGPT(), list[nn.Module]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    discovery = Discovery(found.append)
    discovery.install()
    try:
        optimizer.step()
        optimizer.step()
    finally:
        discovery.uninstall()
    assert found == [model]


def test_the_hooks_are_removed() -> None:
    before = torch.optim.Optimizer.__init__
    found: list[nn.Module] = []
    discovery = Discovery(found.append)
    discovery.install()
    discovery.uninstall()
    torch.optim.SGD(TinyGPT().parameters(), lr=0.1)
    assert torch.optim.Optimizer.__init__ is before
    assert found == []


def test_modules_inside_others_are_not_outermost() -> None:
    inner = nn.Linear(1, 1)
    outer = nn.Sequential(inner)
    assert outermost([inner, outer]) == [outer]
    assert any(module is inner for module in live_modules())


def test_models_are_found_when_an_optimizer_takes_their_parameters():
    teacher, twin = TinyGPT(), None
    with tracing("modules") as traced:
        model = TinyGPT()
        twin = copy.deepcopy(model)
        train(model, 1)
        assert names(traced.spans("forward")) == PARTS
        assert hooks_on(teacher) == hooks_on(twin) == 0


def test_models_are_found_whose_optimizer_is_older_than_the_hooks():
    model = TinyGPT()
    optimizer = torch.optim.SGD(model.parameters())
    with tracing("modules") as traced:
        loss_of(model, batch(0)).backward()
        assert not traced.spans()
        optimizer.step()
        loss_of(model, batch(1)).backward()
        assert names(traced.spans("forward")) == PARTS


def test_both_models_of_a_gan_are_found():
    with tracing("modules") as traced:
        generator, critic = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 1)
        torch.optim.SGD(generator.parameters())
        torch.optim.SGD(critic.parameters())
        critic(generator(torch.ones(1, 2))).sum().backward()
        assert names(traced.spans("forward")) == ["0", "Linear"]


def test_discovery_takes_the_outermost_modules():
    inner = nn.Linear(2, 2)
    outer = nn.Sequential(inner)
    mine = [m for m in live_modules() if m is inner or m is outer]
    assert outermost(mine) == [outer]


def test_modules_that_are_incomplete_or_refuse_to_list_parameters_hide_no_model() -> None:
    class Refuses(nn.Module):
        def parameters(self, recurse: bool = True):
            raise NotImplementedError("ask for the weights of the adapter")

    odd = [nn.Linear.__new__(nn.Linear), nn.Sequential(nn.Linear.__new__(nn.Linear)), Refuses()]
    with tracing("modules") as traced:
        model = TinyGPT()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss_of(model, batch(0)).backward()
        optimizer.step()
        assert len(odd) == 3
        assert {*names(traced.spans("forward"))} == {*PARTS}

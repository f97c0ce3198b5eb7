"""Optimizer steps become spans, nested or raising; no hook stays behind."""

import gc

import pytest
import torch
from torch import nn

from tests.trace_hooks.tiny_models import TinyGPT, tracing, train
from trace_hooks.sources.training import optimizer as optimizer_source


def test_live_optimizers_are_those_whose_steps_run_hooks():
    class HandsOn(torch.optim.SGD):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    inner = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    outer = HandsOn(inner)
    live = optimizer_source.live_optimizers()
    assert id(inner) in live
    assert id(outer) not in live


def test_looking_for_optimizers_lists_no_other_objects(monkeypatch):
    def get_objects():
        raise AssertionError("in the first step a list of all objects costs a tenth of a second")

    monkeypatch.setattr(gc, "get_objects", get_objects)
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))])
    assert id(optimizer) in optimizer_source.live_optimizers()


def test_an_optimizer_inside_another_is_one_step_and_two_nested_spans():
    class Sharded(torch.optim.SGD):
        def __init__(self, parameters):
            super().__init__(parameters)
            self.inner = torch.optim.Adam(parameters)

        def step(self, closure=None):
            self.inner.step()

    with tracing("optimizer") as traced:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = Sharded([parameter])
        for _ in range(3):
            parameter.sum().backward()
            optimizer.step()
        assert len(traced.steps.ended) == 3
        spans = traced.spans("optimizer")[:2]
        assert [(s.name, s.row.depth) for s in spans] == [("Sharded.step", 0), ("Adam.step", 1)]


def test_an_optimizer_step_that_raises_passes_and_the_next_is_recorded():
    with tracing("optimizer") as traced:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([parameter])

        def closure():
            raise KeyError("the user's own")

        with pytest.raises(KeyError, match="the user's own"):
            optimizer.step(closure)
        optimizer.step()
        assert [s.row.depth for s in traced.spans("optimizer")] == [1]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # torch's own, while it traces
def test_a_compiled_optimizer_step_is_left_alone():
    torch._dynamo.reset()
    with tracing("optimizer") as traced:
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = torch.compile(optimizer.step, backend="eager")
        before = model.weight.detach().clone()
        model(torch.ones(1, 2)).sum().backward()
        step()
        assert not torch.equal(model.weight, before)
        assert len(traced.spans("optimizer")) <= 1
    torch._dynamo.reset()


def test_uninstall_leaves_no_hook_behind():
    from torch.optim import optimizer as module

    hooks = module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks
    before = [dict(hook) for hook in hooks]
    with tracing("modules", "optimizer"):
        assert [dict(hook) for hook in hooks] != before
        train(TinyGPT(), 1)
    assert [dict(hook) for hook in hooks] == before

"""Backward spans: nested, with the micro-batch of their forward, keeping no graph alive."""

import gc

import pytest
import torch
from torch import nn

from tests.trace_hooks.sources.training.test_modules import (
    BACKWARD,
    assert_nested,
    names,
)
from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of, tracing
from trace_hooks.sources.training import backward


def test_backward_spans_keep_the_micro_batch_and_chunk_of_their_forward():
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        losses = []
        for microbatch, chunk in ((0, 1), (1, 3)):
            traced.rank_state.microbatch, traced.rank_state.chunk = microbatch, chunk
            losses.append(loss_of(model, batch(microbatch)))
        traced.rank_state.microbatch, traced.rank_state.chunk = -1, -1
        for loss in reversed(losses):
            loss.backward()
        whose = [(span.row.microbatch, span.chunk) for span in traced.spans("backward")]
        assert whose == [(1, 3)] * len(BACKWARD) + [(0, 1)] * len(BACKWARD)


def test_an_exception_in_a_backward_pass_leaves_order_after_the_next_step():
    def fail(grad):
        raise KeyError("the user's own")

    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        out = model.layers[1](model.layers[0](torch.ones(1, 2, 8, requires_grad=True)))
        loss = out.sum()
        model.layers[0].attention.qkv.weight.register_hook(fail)
        with pytest.raises(KeyError, match="the user's own"):
            loss.backward()
        model.layers[0].attention.qkv.weight._backward_hooks.clear()
        traced.source("modules").step_begin()
        loss_of(model, batch(0)).backward()
        assert names(traced.spans("backward"))[-len(BACKWARD) :] == BACKWARD


def test_a_block_whose_input_needs_no_gradient_ends_with_the_backward_pass():
    with tracing("modules", level="blocks") as traced:
        model = TinyGPT()
        model.embedding.requires_grad_(False)
        traced.watch(model)
        loss_of(model, batch(0)).backward()
        assert names(traced.spans("backward")) == ["head", "norm", "layers.1", "layers.0"]
        assert_nested(traced.spans(whole=True))


def test_identity_parts_have_no_backward():
    with tracing("modules") as traced:
        model = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 4))
        traced.watch(model)
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        assert names(traced.spans("backward")) == ["2", "0"]


def test_an_input_reused_by_every_step_collects_no_hooks():
    with tracing("modules") as traced:
        model = nn.Sequential(nn.Linear(4, 4))
        traced.watch(model)
        reused = torch.ones(2, 4, requires_grad=True)
        for _ in range(3):
            model(reused).sum().backward()
        assert not reused._backward_hooks
        assert len(traced.spans("backward")) == 3


def test_no_graph_is_kept_alive():
    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.held = held = nn.Parameter(torch.ones(1))
            probes.append(id(held))
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    probes: list[int] = []
    with tracing("modules") as traced:
        model = TinyGPT()
        traced.watch(model)
        out = Probe.apply(model(batch(0)))
        del out
        alive = {id(thing) for thing in gc.get_objects() if type(thing) is nn.Parameter}
        assert probes[0] not in alive


def test_a_parameter_that_is_an_input_collects_no_hooks_without_a_backward_pass(monkeypatch):
    monkeypatch.setattr(backward, "MOST_ENDS", 3)
    with tracing("modules") as traced:
        model = nn.Sequential(nn.Linear(4, 4))
        traced.watch(model)
        queries = nn.Parameter(torch.ones(2, 4))
        for _ in range(5):
            model(queries)
        (border,) = queries._backward_hooks.values()
        assert len(border.ends) == 3
        model(queries).sum().backward()
        assert not queries._backward_hooks
        assert len(traced.spans("backward")) == 1

"""Frames of small real models: the numbers of what was requested, and where they go."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trace_hooks.tiny_models import TinyGPT, seeded
from tests.trace_hooks.watched_models import forward_backward, frames, watching
from trace_hooks.schema import TABLES

pytestmark = pytest.mark.torch

HALF = 2.0**-10
"""Relative error of float16, and a little of float32's."""


class Heads(nn.Module):
    """Causal attention with 4 heads over 2 of keys, as in Llama, written out next to the kernel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, width)
        self.seen: dict[str, torch.Tensor] = {}

    def forward(self, x):
        query = self.q(x).unflatten(-1, (4, -1)).transpose(1, 2)
        key, value = self.kv(x).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
        every = key.repeat_interleave(2, 1)
        hidden = torch.ones(x.shape[1], x.shape[1]).tril() == 0
        logits = (query @ every.transpose(-2, -1) / math.sqrt(query.shape[-1])).detach()
        self.seen = {"query": query.detach(), "key": key.detach(), "value": value.detach()}
        self.seen["attention"] = logits.masked_fill(hidden, -torch.inf).softmax(-1)
        return (
            functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=True
            )
            .transpose(1, 2)
            .flatten(-2)
        )


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Heads(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


class GQA(TinyGPT):
    def __init__(self) -> None:
        super().__init__(blocks=0)
        self.layers = nn.ModuleList(Block(8) for _ in range(3))


def test_attention_of_the_heads_wanted_is_the_eager_one():
    model = seeded(GQA)
    watch = {"what": "attention", "layers": [0, 2], "heads": [1, 3], "samples": [0, 1]}
    with watching(model, watch) as (traced, _):
        forward_backward(traced, model)
        captured = frames(traced)
        assert {(f.layer, f.head, f.sample) for f in captured} == {
            (layer, head, sample) for layer in (0, 2) for head in (1, 3) for sample in (0, 1)
        }
        for one in captured:
            exact = model.layers[one.layer].attention.seen["attention"][one.sample, one.head]
            np.testing.assert_allclose(one.values(), exact, rtol=HALF, atol=1e-7)
            assert (one.what, one.shape, one.dtype) == ("attention", (5, 5), "float16")
            assert (one.name, one.shard) == (f"layers.{one.layer}.attention", "whole")
            assert one.cost_ns > 0
            assert one.ts_ns > 0
            assert one.watch == "attention"


def test_query_key_and_value_of_the_heads_that_go_with_them():
    model = seeded(GQA)
    with watching(model, {"what": "qkv", "layers": [1], "heads": [2, 3]}) as (traced, _):
        forward_backward(traced, model)
        captured = frames(traced)
        assert [(one.what, one.head) for one in captured] == [
            ("query", 2),
            ("query", 3),
            ("key", 1),
            ("value", 1),
        ]
        for one in captured:
            exact = model.layers[1].attention.seen[one.what][0, one.head]
            np.testing.assert_allclose(one.values(), exact, rtol=HALF, atol=1e-6)


@pytest.mark.parametrize(("what", "path"), [("residual", "layers.1"), ("mlp", "layers.1.mlp")])
def test_outputs_are_those_of_the_module(what: str, path: str):
    model = seeded(TinyGPT)
    seen: list[torch.Tensor] = []
    model.get_submodule(path).register_forward_hook(lambda m, a, out: seen.append(out.detach()))
    with watching(model, {"what": what, "layers": [1], "samples": [1]}) as (traced, _):
        forward_backward(traced, model)
        (one,) = frames(traced)
        assert (one.what, one.layer, one.name, one.sample, one.head) == (what, 1, path, 1, -1)
        np.testing.assert_allclose(one.values(), seen[0][1], rtol=HALF, atol=1e-6)


def test_logits_come_with_the_most_probable_tokens():
    model = seeded(TinyGPT)
    seen: list[torch.Tensor] = []
    model.head.register_forward_hook(lambda m, a, out: seen.append(out.detach()))
    with watching(model, {"what": "logits"}) as (traced, _):
        forward_backward(traced, model)
        (logits,), (top,) = frames(traced, what="logits"), frames(traced, what="probabilities")
        np.testing.assert_allclose(logits.values(), seen[0][0], rtol=HALF, atol=1e-6)
        best, token = seen[0][0].softmax(-1).sort(-1, descending=True)
        np.testing.assert_allclose(top.values(), best[:, :20], rtol=HALF, atol=1e-6)
        assert top.labels is not None
        assert top.layer == -1
        assert np.array_equal(np.reshape(json.loads(top.labels), top.shape), token[:, :20])


def test_rows_tokens_and_tiles():
    model = seeded(TinyGPT)
    seen: list[torch.Tensor] = []
    model.layers[0].register_forward_hook(lambda m, a, out: seen.append(out.detach()))
    common = {"what": "residual", "layers": [0]}
    watches = [
        common | {"id": "tokens", "tokens": [1, 3]},
        common | {"id": "rows", "rows": 2},
        common | {"id": "one", "tokens": [4, 900], "rows": 2},
        common | {"id": "none", "tokens": [5, 9]},
        common | {"id": "mean", "samples": "mean"},
        common | {"id": "tile", "size": 2},
    ]
    with watching(model, *watches) as (traced, _):
        forward_backward(traced, model)
        by_watch = {one.watch: one for one in frames(traced)}
    assert set(by_watch) == {"tokens", "rows", "one", "mean", "tile"}
    whole = seen[0][0]
    rows = {"tokens": slice(1, 4), "rows": slice(None, None, 3), "one": slice(4, 5)}
    for name, chosen in rows.items():
        np.testing.assert_allclose(by_watch[name].values(), whole[chosen], rtol=HALF, atol=1e-6)
    assert (by_watch["tokens"].row_begin, by_watch["tokens"].row_every) == (1, 1)
    assert (by_watch["rows"].row_begin, by_watch["rows"].row_every) == (0, 3)
    assert (by_watch["one"].row_begin, by_watch["mean"].sample) == (4, -1)
    np.testing.assert_allclose(by_watch["mean"].values(), seen[0].mean(0), rtol=HALF, atol=1e-6)
    assert by_watch["tile"].shape == (2, 2)
    assert by_watch["tile"].values()[0, 0] == pytest.approx(float(whole[:3, :4].mean()), rel=1e-2)


def test_a_tile_of_attention_is_a_byte_a_value():
    model = seeded(TinyGPT)
    with watching(model, {"what": "attention", "size": 4}) as (traced, source):
        forward_backward(traced, model)
        captured = frames(traced)
        assert {(one.dtype, one.shape) for one in captured} == {("uint8", (4, 4))}
        (status,) = source.status()
        with_tokens = captured + frames(traced, what="tokens")
        assert status["bytes"] == sum(len(one.data) for one in with_tokens)
        assert status["frames"] == len(captured) == 2


def test_rows_fit_the_table():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, {"what": "logits"}) as (traced, _):
        forward_backward(traced, model)
        frames(traced)
        columns = {column.name for column in TABLES["frames"].columns} - {"attempt", "rank"}
        assert all(set(row) == columns for row in traced.rows("frames"))

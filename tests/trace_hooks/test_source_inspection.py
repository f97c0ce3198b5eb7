"""Frames of small real models: what a watch asks for, and nothing else."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trace_hooks.tiny_models import TinyGPT, Tracing, batch, loss_of, seeded, tracing, train
from trace_hooks.frames import Frame, decode
from trace_hooks.schema import TABLES
from trace_hooks.sources import captures
from trace_hooks.sources.inspection import Inspection
from trace_hooks.watches import Ack, Watch

pytestmark = pytest.mark.torch

HALF = 2.0**-10
"""Relative error of float16, and a little of float32's."""


@contextmanager
def watching(
    model: nn.Module, *watches: dict[str, Any], allow: bool = True, stage: int | None = None
) -> Iterator[tuple[Tracing, Inspection]]:
    """Modules and content of `model` recorded; steps are begun by `step`."""
    with tracing("modules", "inspection") as traced:
        traced.recorder.allow_content = allow
        traced.recorder.writing = True
        traced.watch(model, stage)
        source = traced.source("inspection")
        assert isinstance(source, Inspection)
        acks = source.inspect(list(watches))
        assert not allow or all(ack.ok for ack in acks), acks
        yield traced, source


def step(traced: Tracing, number: int) -> None:
    source = traced.source("inspection")
    source.step_end()
    traced.recorder.step = number
    source.step_begin()


def forward_backward(traced: Tracing, model: nn.Module, number: int = 0) -> None:
    step(traced, number)
    loss_of(model, batch(number)).backward()


def frames(traced: Tracing, **wanted: Any) -> list[Frame]:
    """Frames so far as the table has them; ids of tokens, which come with most, if asked for."""
    source = traced.source("inspection")
    source.step_end()
    source.poll()
    found = [Frame(**row) for row in traced.rows("frames")]
    if "what" not in wanted:
        found = [one for one in found if one.what not in ("tokens", "token_loss")]
    return [one for one in found if all(getattr(one, k) == v for k, v in wanted.items())]


class Heads(nn.Module):
    """Causal attention with 4 heads over 2 of keys, as in Llama, written out beside the kernel."""

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
        return functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        ).transpose(1, 2).flatten(-2)  # fmt: skip


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
        found = frames(traced)
        assert {(f.layer, f.head, f.sample) for f in found} == {
            (layer, head, sample) for layer in (0, 2) for head in (1, 3) for sample in (0, 1)
        }
        for one in found:
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
        found = frames(traced)
        assert [(one.what, one.head) for one in found] == [
            ("query", 2), ("query", 3), ("key", 1), ("value", 1),
        ]  # fmt: skip
        for one in found:
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


def test_gradients_and_weights_before_the_step():
    model = seeded(TinyGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    watches = ({"what": "weights", "layers": [0]}, {"what": "gradients", "layers": [0]})
    with watching(model, *watches) as (traced, _):
        forward_backward(traced, model)
        kept = {
            what: {
                name: (p if what == "weights" else p.grad).detach().clone()
                for name, p in model.named_parameters() if name.startswith("layers.0")
            }
            for what in ("weights", "gradients")
        }  # fmt: skip
        optimizer.step()
        for what, parameters in kept.items():
            found = {one.name: one for one in frames(traced, what=what)}
            assert set(found) == set(parameters)
            for name, exact in parameters.items():
                peak = float(exact.abs().max())
                np.testing.assert_allclose(
                    found[name].values().ravel(), exact.ravel(), rtol=HALF, atol=peak * 1e-7
                )


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
        found = {one.watch: one for one in frames(traced)}
    assert set(found) == {"tokens", "rows", "one", "mean", "tile"}
    whole = seen[0][0]
    rows = {"tokens": slice(1, 4), "rows": slice(None, None, 3), "one": slice(4, 5)}
    for name, chosen in rows.items():
        np.testing.assert_allclose(found[name].values(), whole[chosen], rtol=HALF, atol=1e-6)
    assert (found["tokens"].row_begin, found["tokens"].row_every) == (1, 1)
    assert (found["rows"].row_begin, found["rows"].row_every) == (0, 3)
    assert (found["one"].row_begin, found["mean"].sample) == (4, -1)
    np.testing.assert_allclose(found["mean"].values(), seen[0].mean(0), rtol=HALF, atol=1e-6)
    assert found["tile"].shape == (2, 2)
    assert found["tile"].values()[0, 0] == pytest.approx(float(whole[:3, :4].mean()), rel=1e-2)


class Eager(nn.Module):
    """Attention without a kernel."""

    def forward(self, x):
        return (x @ x.transpose(-2, -1)).softmax(-1) @ x


def test_a_watch_that_sees_nothing_says_so():
    model = TinyGPT()
    for layer in model.layers:
        layer.attention = Eager()
    with watching(model, {"what": "attention"}) as (traced, source):
        assert source.status() == []
        forward_backward(traced, model)
        assert frames(traced) == []
        assert "has seen nothing of it" in source.status()[0]["text"]
        source.inspect([{"what": "residual"}])
        forward_backward(traced, model, 1)
        assert source.status()[0]["text"] == ""


def test_a_tile_of_attention_is_a_byte_a_value():
    model = seeded(TinyGPT)
    with watching(model, {"what": "attention", "size": 4}) as (traced, source):
        forward_backward(traced, model)
        found = frames(traced)
        assert {(one.dtype, one.shape) for one in found} == {("uint8", (4, 4))}
        (status,) = source.status()
        assert status["bytes"] == sum(len(one.data) for one in found)
        assert status["frames"] == len(found) == 2


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_losses_are_bitwise_equal_and_recomputation_counts_once(reentrant: bool | None):
    plain = train(seeded(lambda: TinyGPT(reentrant=reentrant)), 6)
    model = seeded(lambda: TinyGPT(reentrant=reentrant))
    whats = ("attention", "qkv", "mlp", "residual", "logits", "gradients", "weights")
    with watching(model, *({"what": what} for what in whats)) as (traced, _):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for number in range(6):
            step(traced, number)
            loss = loss_of(model, batch(number))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        assert losses == plain
        for number in range(6):
            assert len(frames(traced, step=number, what="attention")) == 2
            assert len(frames(traced, step=number, what="residual")) == 2


def test_only_due_steps_until_the_last_and_only_training_forwards():
    model = TinyGPT()
    watch = {"what": "residual", "layers": [0], "every": 2, "until": 4}
    with watching(model, watch) as (traced, source):
        for number in range(1, 9):
            step(traced, number)
            model.eval()
            model(batch(0))
            model.train()
            with torch.no_grad():
                model(batch(0))
            for _ in range(3):
                loss_of(model, batch(number)).backward()
        assert [one.step for one in frames(traced)] == [2, 4]
        assert source.status() == []
        (mark,) = traced.rows("marks")
        assert mark["text"].startswith("watch residual ended after 2 steps with 2 frames")


def test_micro_batches_take_the_place_of_made_up_numbers():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, {"what": "residual"}, stage=0) as (traced, source):
        step(traced, 0)
        loss_of(model, batch(9))  # as torch's pipelining does to find shapes
        assert not source._frames._captures
        for microbatch in range(3):
            traced.recorder.microbatch = microbatch
            loss_of(model, batch(microbatch)).backward()
        assert {one.microbatch for one in frames(traced)} == {0}
        assert len(frames(traced)) == 4
        assert [status["frames"] for status in source.status()] == [2, 2]
        traced.recorder.microbatch = -1
        forward_backward(traced, model, 1)  # a stage of an engine without micro-batch numbers
        assert len(frames(traced, step=1)) == 4


def test_layers_of_a_stage_that_counts_anew_go_on():
    model = TinyGPT()
    with watching(model, {"what": "residual", "layers": [3]}, stage=1) as (traced, source):
        assert source.what()["layers"] == [2, 3]
        forward_backward(traced, model)
        (one,) = frames(traced)
        assert (one.layer, one.name, one.chunk) == (3, "layers.1", 1)


def test_without_a_watch_nothing_is_hooked():
    original = functional.scaled_dot_product_attention
    model = TinyGPT()
    with watching(model) as (traced, source):
        forward_backward(traced, model)
        assert functional.scaled_dot_product_attention is original
        assert traced.recorder.on_content is None
        source.inspect([{"what": "attention", "every": 5}])
        forward_backward(traced, model, 1)
        assert functional.scaled_dot_product_attention is not original
        source.inspect([])
        forward_backward(traced, model, 5)
        assert functional.scaled_dot_product_attention is original
        assert frames(traced) == []


def test_content_is_refused_unless_the_job_allows_it():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, allow=False) as (traced, source):
        (ack,) = source.inspect([{"what": "mlp"}])
        assert not ack.ok
        assert ack.text == (
            "this job keeps its content to itself; start it with allow_content=True or "
            "TRACE_HOOKS_ALLOW_CONTENT=1 to let it be watched"
        )
        forward_backward(traced, model)
        assert frames(traced) == []


def test_what_does_not_exist_is_refused_with_a_sentence():
    model = TinyGPT()
    with watching(model, {"what": "attention"}) as (traced, source):
        forward_backward(traced, model)

        def refused(**watch: Any) -> str:
            (ack,) = source.inspect([watch])
            assert not ack.ok
            return ack.text

        text = "this rank has no layer 9; it has layers 0 to 1"
        assert refused(what="mlp", layers=[9]) == text
        assert refused(what="qkv", heads=[7]) == "this rank has no head 7; it has heads 0"
        assert "rows is 1000000000" in refused(what="mlp", rows=10**9)
        acks = source.inspect([{"id": "a", "what": "mlp"}, {"id": "a", "what": "mlp"}, {}])
        assert [ack.ok for ack in acks] == [True, False, False]
        assert "another watch has the id a" in acks[1].text
        (ack,) = source.set_watches([Watch.from_json({"what": "mlp", "layers": [1, 9]})])
        assert ack == Ack("mlp", True, "taken for layers 1 of this rank")


def test_sixteen_watches_and_no_more():
    model = TinyGPT()
    with watching(model) as (_, source):
        code = [{"id": f"c{n}", "what": "mlp"} for n in range(10)]
        assert all(ack.ok for ack in source.inspect(code))
        server = [Watch.from_json({"id": f"s{n}", "what": "mlp"}) for n in range(10)]
        acks = source.set_watches(server)
        assert [ack.ok for ack in acks] == [True] * 6 + [False] * 4
        assert acks[-1].text == "16 watches are under way; end one of them first"


def test_attention_inside_a_compiled_layer_is_said_to_be_invisible():
    model = TinyGPT()
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    with watching(model) as (_, source):
        (ack,) = source.inspect([{"what": "attention", "layers": [0]}])
        assert not ack.ok
        assert "compiled" in ack.text
        (ack,) = source.inspect([{"what": "attention"}])
        assert ack.ok


def test_steps_beyond_the_bytes_a_second_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch):
    model = TinyGPT()
    seconds = iter(np.arange(0.0, 1e6))  # of each question for the time
    monkeypatch.setattr(captures, "monotonic", lambda: float(next(seconds)))
    watch = {"what": "residual", "layers": [0], "bytes_per_s": 20}  # a frame has 5 x 8 x 2
    with watching(model, watch) as (traced, source):
        for number in range(12):
            forward_backward(traced, model, number)
        (status,) = source.status()
        assert [one.step for one in frames(traced)] == [0, 4, 8]
        assert (status["steps"], status["thinned"], status["bytes"]) == (3, 9, 240)


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(captures, "MAX_STEP_BYTES", 100)
    model = TinyGPT()
    with watching(model, {"what": "residual"}) as (traced, source):
        forward_backward(traced, model)
        assert len(frames(traced)) == 1
        assert source.status()[0]["left_out"] == 1


def test_frames_go_to_who_looks_at_them():
    model = TinyGPT()
    seen: list[Frame] = []
    with watching(model, {"what": "mlp"}) as (traced, _source):
        traced.recorder.on_frame = seen.append
        traced.recorder.writing = False
        forward_backward(traced, model)
        assert frames(traced) == []  # the run is not known yet
        assert [(one.what, one.layer) for one in seen] == [("tokens", -1), ("mlp", 0), ("mlp", 1)]
        assert abs(seen[0].ts_ns - time.time_ns()) < 60e9
        assert decode(seen[1].encode()).name == "layers.0.mlp"
        traced.recorder.writing = True
        assert [one.data for one in frames(traced)] == [one.data for one in seen[1:]]


def test_rows_fit_the_table():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, {"what": "logits"}) as (traced, _):
        forward_backward(traced, model)
        frames(traced)
        columns = {column.name for column in TABLES["frames"].columns} - {"attempt", "rank"}
        assert all(set(row) == columns for row in traced.rows("frames"))


def test_two_threads_may_ask_while_training_goes_on():
    model = TinyGPT()
    with watching(model) as (traced, source):
        done = threading.Event()

        def ask(origin: str) -> None:
            number = 0
            while not done.is_set():
                number += 1
                watch = {"id": f"{origin}{number}", "what": "mlp", "layers": [number % 2]}
                source.set_watches([Watch.from_json(watch)], origin)

        threads = [threading.Thread(target=ask, args=(o,)) for o in ("server", "code")]
        for thread in threads:
            thread.start()
        for number in range(30):
            forward_backward(traced, model, number)
        done.set()
        for thread in threads:
            thread.join()
        source.inspect([])
        source.set_watches([])
        step(traced, 99)
        assert source.status() == []
        assert all(one.what == "mlp" for one in frames(traced))

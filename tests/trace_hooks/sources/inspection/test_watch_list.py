"""Answers to watches: taken, refused with a reason, or nothing captured."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

from tests.trace_hooks.tiny_models import TinyGPT
from tests.trace_hooks.watched_models import forward_backward, frames, step, watching
from trace_hooks.protocol.watches import Ack, Watch

pytestmark = pytest.mark.torch


class Eager(nn.Module):
    """Attention without a kernel."""

    def forward(self, x):
        return (x @ x.transpose(-2, -1)).softmax(-1) @ x


def test_a_watch_that_captures_nothing_has_a_note():
    model = TinyGPT()
    for layer in model.layers:
        layer.attention = Eager()
    with watching(model, {"what": "attention"}) as (traced, source):
        assert source.status() == []
        forward_backward(traced, model)
        assert frames(traced) == []
        assert "has captured nothing of it" in source.status()[0]["text"]
        source.inspect([{"what": "residual"}])
        forward_backward(traced, model, 1)
        assert source.status()[0]["text"] == ""


def test_content_is_refused_unless_the_job_allows_it():
    model = TinyGPT()
    with watching(model, {"what": "attention"}, allow=False) as (traced, source):
        (ack,) = source.inspect([{"what": "mlp"}])
        assert not ack.ok
        assert ack.text == (
            "this job does not allow its content to be captured; start it with "
            "allow_content=True or TRACE_HOOKS_ALLOW_CONTENT=1"
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
        assert acks[-1].text == "16 watches are in progress; end one of them first"


def test_attention_inside_a_compiled_layer_is_refused_as_invisible():
    model = TinyGPT()
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    with watching(model) as (_, source):
        (ack,) = source.inspect([{"what": "attention", "layers": [0]}])
        assert not ack.ok
        assert "compiled" in ack.text
        (ack,) = source.inspect([{"what": "attention"}])
        assert ack.ok


@pytest.mark.long
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

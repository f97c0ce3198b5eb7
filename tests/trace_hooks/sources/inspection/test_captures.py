"""Which steps and forwards give frames; what watching leaves as it was."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from torch.nn import functional

from tests.trace_hooks.tiny_models import TinyGPT, batch, idle_forwards, loss_of, seeded, train
from tests.trace_hooks.watched_models import forward_backward, frames, step, watching
from trace_hooks.sources.inspection import captures

pytestmark = pytest.mark.torch


@pytest.mark.sampled
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_losses_are_bitwise_equal_and_recomputation_counts_once(reentrant: bool | None):
    plain = train(seeded(lambda: TinyGPT(reentrant=reentrant)), 6)
    model = seeded(lambda: TinyGPT(reentrant=reentrant))
    whats = ("attention", "qkv", "mlp", "residual", "logits", "gradients", "weights")
    with watching(model, *({"what": what} for what in whats)) as (traced, _):
        assert train(model, 6, begin=partial(step, traced)) == plain
        for number in range(6):
            assert len(frames(traced, step=number, what="attention")) == 2
            assert len(frames(traced, step=number, what="residual")) == 2


def test_only_due_steps_until_the_last_and_only_training_forwards():
    model = TinyGPT()
    watch = {"what": "residual", "layers": [0], "every": 2, "until": 4}
    with watching(model, watch) as (traced, source):
        for number in range(1, 9):
            step(traced, number)
            idle_forwards(model)
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
            traced.rank_state.microbatch = microbatch
            loss_of(model, batch(microbatch)).backward()
        assert {one.microbatch for one in frames(traced)} == {0}
        assert len(frames(traced)) == 4
        assert [status["frames"] for status in source.status()] == [2, 2]
        traced.rank_state.microbatch = -1
        forward_backward(traced, model, 1)  # a stage of an engine without micro-batch numbers
        assert len(frames(traced, step=1)) == 4


def test_layers_of_a_stage_that_counts_from_zero_go_on():
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
        assert traced.context.models.on_content is None
        source.inspect([{"what": "attention", "every": 5}])
        forward_backward(traced, model, 1)
        assert functional.scaled_dot_product_attention is not original
        source.inspect([])
        forward_backward(traced, model, 5)
        assert functional.scaled_dot_product_attention is original
        assert frames(traced) == []


def test_steps_beyond_the_bytes_a_second_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch):
    model = TinyGPT()
    seconds = iter(np.arange(0.0, 1e6))  # of each question for the time
    monkeypatch.setattr(captures, "monotonic", lambda: float(next(seconds)))
    watch = {"what": "residual", "layers": [0], "bytes_per_s": 25}  # frames: 5 x 8 x 2, 5 ids x 4
    with watching(model, watch) as (traced, source):
        for number in range(12):
            forward_backward(traced, model, number)
        (status,) = source.status()
        assert [one.step for one in frames(traced)] == [0, 4, 8]
        assert (status["steps"], status["thinned"], status["bytes"]) == (3, 9, 300)


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(captures, "MAX_STEP_BYTES", 100)
    model = TinyGPT()
    with watching(model, {"what": "residual"}) as (traced, source):
        forward_backward(traced, model)
        assert len(frames(traced)) == 1
        assert source.status()[0]["left_out"] == 1

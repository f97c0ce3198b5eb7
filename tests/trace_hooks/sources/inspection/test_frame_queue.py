"""Captures reach the table and the dashboard, and are charged."""

from __future__ import annotations

import time

import pytest
import torch

from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of
from tests.trace_hooks.watched_models import forward_backward, frames, step, watching
from trace_hooks.protocol.frames import Frame, decode

pytestmark = pytest.mark.torch


def test_frames_go_to_the_dashboard():
    model = TinyGPT()
    seen: list[Frame] = []
    with watching(model, {"what": "mlp"}) as (traced, _source):
        traced.live.on_frame = seen.append
        traced.rank_state.writes_rows = False
        forward_backward(traced, model)
        assert frames(traced) == []  # the run is not known yet
        assert [(one.what, one.layer) for one in seen] == [("tokens", -1), ("mlp", 0), ("mlp", 1)]
        assert abs(seen[0].ts_ns - time.time_ns()) < 60e9
        assert decode(seen[1].encode()).name == "layers.0.mlp"
        traced.rank_state.writes_rows = True
        assert [one.data for one in frames(traced)] == [one.data for one in seen[1:]]


def test_frames_that_wait_keep_their_numbers():
    model = TinyGPT()
    watches = ({"what": what} for what in ("residual", "weights"))
    with watching(model, *watches) as (traced, _):
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        exact = []
        for number in range(4):
            step(traced, number)
            loss_of(model, batch(number)).backward()
            exact.append(model.layers[0].mlp[0].weight.detach().clone())
            optimizer.step()  # writes to the memory that was captured
            if number % 2:  # two steps wait at once, and their memory is used again
                assert frames(traced)
        found = [
            torch.from_numpy(one.values())
            for one in frames(traced, what="weights", name="layers.0.mlp.0.weight")
        ]
        assert len(found) == 4
        for one, weight in zip(found, exact, strict=True):
            torch.testing.assert_close(one, weight, rtol=2.0**-10, atol=1e-6)
        assert not torch.equal(found[0], found[2])


def test_a_watch_is_charged_for_whole_hooks():
    model = TinyGPT()
    with watching(model, {"what": "residual"}, {"what": "mlp", "every": 2}) as (traced, source):
        for number in range(1, 5):
            forward_backward(traced, model, number)
        captured = [*frames(traced), *frames(traced, what="tokens")]
        own_ns = {
            what: sum(one.cost_ns for one in captured if one.watch == what)
            for what in ("residual", "mlp")
        }
        charged = {status["id"]: status["cost_ns"] for status in source.status()}
        assert all(charged[what] > own_ns[what] > 0 for what in own_ns)
        traced.rank_state.frames_ns += 3_000_000  # as the drain thread reports its writing
        before = {status["id"]: status["drain_ns"] for status in source.status()}
        source.poll()
        more = {
            status["id"]: status["drain_ns"] - before[status["id"]] for status in source.status()
        }
        assert all(ns > 0 for ns in before.values())
        assert 2_999_990 < sum(more.values()) <= 3_000_000
        assert more["residual"] > 1.5 * more["mlp"] > 0  # twice the steps, and the tokens

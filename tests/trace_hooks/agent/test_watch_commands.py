"""Watches that the server requests, and what a rank reports on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from trace_hooks.agent.watch_commands import ServerWatches
from trace_hooks.protocol.watches import Ack, Watch
from trace_hooks.recording.commands import Live, Refused
from trace_hooks.recording.rank_state import RankState


class Inspecting:
    """Takes watches of layers 0 to 3."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def set_watches(self, watches: Sequence[Watch], origin: str) -> list[Ack]:
        assert origin == "server"
        return [Ack(one.id, (one.layers or (0,))[0] < 4, "an answer") for one in watches]

    def what(self) -> dict[str, Any]:
        return {"layers": [0, 1, 2, 3], "heads": 8}

    def status(self) -> list[dict[str, Any]]:
        costs = {"cost_ns": 3_000_000, "drain_ns": 1_000_000, "steps": 2}
        return [{"id": "mlp", "bytes": self.num_bytes, **costs}]


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.fixture
def watches(live: Live) -> ServerWatches:
    found = ServerWatches(RankState(), Inspecting(), allow_content=True)
    found.join(live)
    return found


def test_the_command_replaces_the_watches(watches: ServerWatches, live: Live) -> None:
    for value in ([{"what": "mlp"}, {"what": "logits"}], [{"what": "mlp", "until": 3}]):
        ack = live.commands.answer({"type": "watch", "id": "c", "watches": value})
        assert ack is not None
        assert ack["ok"]
    assert [one["id"] for one in watches.watches()] == ["mlp"]  # type: ignore[attr-defined]
    assert live.about["allow_content"]() is True


def test_a_refused_watch_is_named_and_not_kept(watches: ServerWatches) -> None:
    with pytest.raises(Refused) as refused:
        watches.set_watches([{"what": "mlp"}, {"what": "mlp", "id": "far", "layers": [9]}])
    assert refused.value.ids == ("far",)
    assert [one["id"] for one in watches.watches()] == ["mlp"]


def test_a_watch_that_is_over_is_not_reported(watches: ServerWatches) -> None:
    watches.set_watches([{"what": "mlp", "until": 3}])
    watches._rank_state.step = 4
    assert watches.watches() == []


def test_costs_are_a_mean_over_steps(watches: ServerWatches) -> None:
    (status,) = watches.status()
    assert status["cost_ms_per_step"] == 2.0
    assert status["bytes_per_s"] == 0.0
    watches._inspecting.num_bytes = 1_000  # type: ignore[attr-defined]
    (status,) = watches.status()
    assert status["bytes_per_s"] > 0

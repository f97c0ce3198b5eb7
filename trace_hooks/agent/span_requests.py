"""Requests of the server to publish the spans of some steps, where only some steps have them."""

from __future__ import annotations

from typing import Any

from trace_hooks.protocol.capture_request import SPANS_COMMAND, read_request
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState
from trace_hooks.recording.step_sampling import StepSampling

MOST_RANGES = 16
"""Requests for steps that are still to come; a server that asks for more gets a refusal."""


class SpanRequests:
    """Carries such requests out (agent's thread)."""

    def __init__(self, rank_state: RankState, sampling: StepSampling) -> None:
        self._rank_state, self._sampling = rank_state, sampling

    def join(self, live: Live) -> None:
        """Register the command."""
        live.commands.register(SPANS_COMMAND, self.record)

    def record(self, value: Any) -> str:
        """Publish the spans of later steps; raises ValueError, one sentence."""
        request, step = read_request(value, SPANS_COMMAND), self._rank_state.step
        if not self._sampling.leaves_out:
            return "publishes the spans of every step already"
        first = step + 1 if request.first is None else request.first
        if first <= step:
            raise ValueError(f"this rank is in step {step} already; ask for a later one")
        if self._sampling.num_asked >= MOST_RANGES:
            raise ValueError(
                f"{self._sampling.num_asked} requests wait for their steps already; ask again once "
                f"some have passed, this rank is in step {step}"
            )
        last = first + request.steps - 1
        self._sampling.ask(first, last)
        return f"publishes the spans of steps {first} to {last}, it is in step {step}"

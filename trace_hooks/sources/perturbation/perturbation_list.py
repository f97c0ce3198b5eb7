"""Perturbations of one rank that somebody has asked for: which it takes, why not the others.

For any thread.
"""

from __future__ import annotations

import threading
from typing import Any

from trace_hooks.protocol.perturbations import MAX_PERTURBATIONS, Perturbation, requested
from trace_hooks.protocol.watches import Ack
from trace_hooks.recording.guard import disabled
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.global_indices import GlobalPlaces

REFUSED = (
    "this job lets nobody change its model; start it with allow_perturbation=True or "
    "TRACE_HOOKS_ALLOW_PERTURBATION=1 to let it be perturbed"
)
HOOKS = ("tracer.perturbing.step_begin", "perturbing.output", "perturbing.attention")
"""Where one of them has failed, nothing is perturbed any more."""


class PerturbationList:
    """What is asked for and not over, by id."""

    def __init__(self, context: SourceContext, places: GlobalPlaces) -> None:
        self.number = 0
        self._context = context
        self._places = places
        self._lock = threading.RLock()  # a signal handler may stop the tracer meanwhile
        self._wanted: dict[str, Perturbation] = {}

    def ask(self, value: Any) -> Ack:
        """Take the perturbation that a JSON object is, or end one: {"end": id}."""
        try:
            asked = requested(value)
        except ValueError as error:
            return Ack("", False, str(error))
        if isinstance(asked, str):
            return self._end(asked)
        with self._lock:
            why_not = self._why_not(asked)
            if why_not is not None:
                return Ack(asked.id, False, why_not)
            self._wanted[asked.id] = asked
            self.number = len(self._wanted)
        return Ack(asked.id, True, f"taken: {asked.text}")

    def current(self) -> dict[str, Perturbation]:
        """Those there are now."""
        with self._lock:
            return dict(self._wanted)

    def to_json(self) -> list[dict[str, Any]]:
        """Those there are now, for the heartbeats."""
        return [asked.to_json() for asked in self.current().values()]

    def forget(self, asked: Perturbation) -> None:
        """One is over; another of its id stays."""
        with self._lock:
            if self._wanted.get(asked.id) is asked:
                del self._wanted[asked.id]
            self.number = len(self._wanted)

    def clear(self) -> None:
        """All are over."""
        with self._lock:
            self._wanted.clear()
            self.number = 0

    def _end(self, name: str) -> Ack:
        with self._lock:
            known = self._wanted.pop(name, None) is not None
            self.number = len(self._wanted)
        if not known:
            return Ack(name, False, f"no perturbation {name} is under way on this rank")
        return Ack(name, True, "ends before the next step")

    def _why_not(self, asked: Perturbation) -> str | None:
        step = self._context.rank_state.step
        if not self._context.options.allow_perturbation:
            return REFUSED
        if any(name in disabled for name in HOOKS):
            return "a perturbation has failed on this rank, so it takes no other; its log says why"
        if len(self._wanted) >= MAX_PERTURBATIONS:
            return f"{MAX_PERTURBATIONS} perturbations are asked for; end one of them first"
        if asked.id in self._wanted:
            return f"another perturbation has the id {asked.id}; give this one an id of its own"
        if asked.steps[0] <= step:
            return (
                f"step {asked.steps[0]} has begun on this rank, which is in step {step}; "
                "begin later, so that all ranks begin at the same step"
            )
        if self._context.models.roots and asked.layer not in self._places.layers():
            there = ", ".join(map(str, self._places.layers())) or "none"
            return f"this rank has no layer {asked.layer}; its layers: {there}"
        return None

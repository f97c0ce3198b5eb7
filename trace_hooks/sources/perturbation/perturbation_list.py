"""Requested perturbations of one rank: which it takes, and why not the others.

Thread-safe.
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
    "this job does not allow changes to its model; start it with allow_perturbation=True or "
    "TRACE_HOOKS_ALLOW_PERTURBATION=1"
)
HOOKS = ("tracer.perturbing.step_begin", "perturbing.output", "perturbing.attention")
"""Hooks whose failure ends all perturbations."""


class PerturbationList:
    """Perturbations that were requested and are not over, by id."""

    def __init__(self, context: SourceContext, places: GlobalPlaces) -> None:
        self.number = 0
        self._context = context
        self._places = places
        self._lock = threading.RLock()  # a signal handler may stop the tracer meanwhile
        self._wanted: dict[str, Perturbation] = {}

    def ask(self, value: Any) -> Ack:
        """Take the perturbation in a JSON object, or end one: {"end": id}."""
        try:
            request = requested(value)
        except ValueError as error:
            return Ack("", False, str(error))
        if isinstance(request, str):
            return self._end(request)
        with self._lock:
            why_not = self._why_not(request)
            if why_not is not None:
                return Ack(request.id, False, why_not)
            self._wanted[request.id] = request
            self.number = len(self._wanted)
        return Ack(request.id, True, f"taken: {request.text}")

    def current(self) -> dict[str, Perturbation]:
        """The perturbations there are now."""
        with self._lock:
            return dict(self._wanted)

    def to_json(self) -> list[dict[str, Any]]:
        """The same for the heartbeats."""
        return [request.to_json() for request in self.current().values()]

    def forget(self, request: Perturbation) -> None:
        """Remove one that is over; a newer one with its id stays."""
        with self._lock:
            if self._wanted.get(request.id) is request:
                del self._wanted[request.id]
            self.number = len(self._wanted)

    def clear(self) -> None:
        """Remove all."""
        with self._lock:
            self._wanted.clear()
            self.number = 0

    def _end(self, name: str) -> Ack:
        with self._lock:
            known = self._wanted.pop(name, None) is not None
            self.number = len(self._wanted)
        if not known:
            return Ack(name, False, f"no perturbation {name} is in progress on this rank")
        return Ack(name, True, "ends before the next step")

    def _why_not(self, request: Perturbation) -> str | None:
        step = self._context.rank_state.step
        if not self._context.options.allow_perturbation:
            return REFUSED
        if any(name in disabled for name in HOOKS):
            return "a perturbation has failed on this rank, so it takes no other; its log says why"
        if len(self._wanted) >= MAX_PERTURBATIONS:
            return f"{MAX_PERTURBATIONS} perturbations are in progress; end one of them first"
        if request.id in self._wanted:
            return f"another perturbation has the id {request.id}; give this one an id of its own"
        if request.steps[0] <= step:
            return (
                f"step {request.steps[0]} has begun on this rank, which is in step {step}; "
                "begin later, so that all ranks begin at the same step"
            )
        if self._context.models.roots and request.layer not in self._places.layers():
            present = ", ".join(map(str, self._places.layers())) or "none"
            return f"this rank has no layer {request.layer}; its layers: {present}"
        return None

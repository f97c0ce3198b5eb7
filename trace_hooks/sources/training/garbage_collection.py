"""Runs of Python's garbage collector, which stop the training thread.

Sees: every full collection (generation 2) and every younger one of at least MIN_NS; the many
shorter ones, a thousand in a step, would cost more to record than they take.
Costs: two clock readings a collection; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import gc

from trace_hooks.recording.clock import now, thread_cpu
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext

MIN_NS = 50_000
"""A collection of a young generation that took less is not recorded."""

FULL = 2
"""The oldest generation."""


class GarbageCollector(Source):
    """Spans of collections, named by their generation."""

    name = "gc"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._callback = self._collecting  # one bound method, so that it can be removed
        self._begun: tuple[int, int] | None = None  # wall and CPU ns; only one collects at a time

    def install(self) -> None:
        """Register a callback of the collector."""
        gc.callbacks.append(self._callback)

    def uninstall(self) -> None:
        """Remove the callback."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)

    @guarded("gc.collecting")
    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = now(), thread_cpu()
        elif self._begun is not None:
            (begin_ns, cpu_ns), end_ns = self._begun, now()
            self._begun = None
            generation = info["generation"]
            if generation == FULL or end_ns - begin_ns >= MIN_NS:
                self.recorder.add_span(
                    self.recorder.site(f"gc generation {generation}", "gc"),
                    begin_ns,
                    end_ns,
                    step=self.rank_state.step,
                    cpu_ns=thread_cpu() - cpu_ns,
                    microbatch=self.rank_state.microbatch,
                )

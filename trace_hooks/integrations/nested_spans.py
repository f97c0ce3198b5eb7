"""Spans of what a framework itself measures: its timers, or the spans of its own logger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from threading import get_ident
from typing import Any

from trace_hooks.recording.recorder import Recorder
from trace_hooks.tracer import OwnSpan


class NestedSpans:
    """What runs on each thread, outermost first.

    `kinds`: kind of spans by name, `host` for others; `left_out`: names that are not recorded.
    Spans lie inside each other: one that ends while a later one runs ends that too, unrecorded.
    What runs in one of kind `evaluation` is no part of a step, as in a span of the user's own.
    """

    def __init__(
        self, recorder: Recorder, kinds: Mapping[str, str], left_out: Collection[str]
    ) -> None:
        self._recorder = recorder
        self._kinds, self._left_out = kinds, left_out
        self._running: dict[int, list[tuple[Any, OwnSpan]]] = defaultdict(list)  # by thread

    def begin(self, which: Any, name: str) -> None:
        """The framework begins to measure; `which` is the object that does."""
        if name not in self._left_out:
            span = OwnSpan(self._recorder, name, self._kinds.get(name, "host"))
            span.__enter__()
            self._running[get_ident()].append((which, span))

    def end(self, which: Any) -> None:
        """It has measured."""
        running = self._running[get_ident()]
        if all(which is not begun for begun, _ in running):
            return
        while running:
            begun, span = running.pop()
            if begun is which:
                return span.__exit__(None, None, None)

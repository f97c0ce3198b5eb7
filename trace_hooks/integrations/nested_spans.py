"""Spans of what a framework itself measures: its timers, or the spans of its own logger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from threading import get_ident
from typing import Any

from trace_hooks.recording.recorder import Mark, Recorder


class NestedSpans:
    """What runs on each thread, outermost first.

    `kinds`: kind of spans by name, `host` for others; `left_out`: names that are not recorded.
    Spans lie inside each other: one that ends while a later one runs ends that too, unrecorded.
    """

    def __init__(
        self, recorder: Recorder, kinds: Mapping[str, str], left_out: Collection[str]
    ) -> None:
        self._recorder = recorder
        self._kinds, self._left_out = kinds, left_out
        self._running: dict[int, list[tuple[Any, Mark]]] = defaultdict(list)  # by thread

    def begin(self, which: Any, name: str) -> None:
        """The framework begins to measure; `which` is the object that does."""
        if name not in self._left_out:
            self._running[get_ident()].append((which, self._recorder.open()))

    def end(self, which: Any, name: str) -> None:
        """It has measured."""
        running = self._running[get_ident()]
        if all(which is not begun for begun, _ in running):
            return
        while running:
            begun, mark = running.pop()
            if begun is which:
                site = self._recorder.site(name, self._kinds.get(name, "host"))
                return self._recorder.close(site, mark)

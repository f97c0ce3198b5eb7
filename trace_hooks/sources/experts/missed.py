"""Routers that are not counted, or not placed: a mark says so once for each reason."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

from trace_hooks.recording.clock import now
from trace_hooks.recording.recorder import Recorder

CAPTURED = "are not counted in a CUDA graph"
COMPILED = "are not counted: compiled code runs them, or nothing does"
NOWHERE = (
    "are in no model that the hooks know, so that their layers are unknown; pass it to tracer.watch"
)


class Missed:
    """Collects (reason, router) of a step, and writes a note of those that are new."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._new: dict[str, list[str]] = defaultdict(list)  # names by reason
        self._known: set[tuple[str, str]] = set()

    def add(self, why: str, names: Iterable[str]) -> None:
        """Routers of these names are missed."""
        for name in names:
            if (why, name) not in self._known:
                self._known.add((why, name))
                self._new[why].append(name)

    def write(self) -> None:
        """Say so."""
        for why, names in self._new.items():
            text = f"routers such as {names[0]} ({len(names)} in all) {why}"
            self._recorder.add_row("marks", ts_ns=now(), kind="note", text=text, args=None)
        self._new.clear()


def has_compiled() -> bool:
    """Whether torch.compile has made code in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return bool(counters.get("stats", {}).get("unique_graphs", 0))

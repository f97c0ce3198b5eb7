"""Begin and end events put together: each end closes the newest begin of its name on its track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Payload = TypeVar("Payload")
_MOST_OPEN = 2_000
"""Deeper nesting is damage: an end looks through what is open."""


@dataclass
class _Open(Generic[Payload]):
    name: str
    ts_ns: int
    kind: str
    payload: Payload


class Track(Generic[Payload]):
    """One track, whose events come in order of time.

    `emit(begin_ns, dur_ns, kind, name, payload of the begin, payload of the end)` gets each whole
    span.
    """

    def __init__(self, emit: Callable[[int, int, str, str, Payload, Payload], None]) -> None:
        self.num_ends_alone = 0
        self.num_never_ended = 0
        self._emit = emit
        self._open: list[_Open[Payload]] = []
        self._num_open: Counter[str] = Counter()  # by name: an end without a begin costs nothing
        self._newest_ns = 0

    @property
    def enclosing(self) -> str:
        """Kind of the innermost span that is open; empty for none."""
        return self._open[-1].kind if self._open else ""

    def begin(self, ts_ns: int, kind: str, name: str, payload: Payload) -> None:
        """A begin event."""
        self._newest_ns = max(self._newest_ns, ts_ns)
        if len(self._open) >= _MOST_OPEN:
            self.num_never_ended += 1
            return
        self._open.append(_Open(name, ts_ns, kind, payload))
        self._num_open[name] += 1

    def end(self, ts_ns: int, name: str, payload: Payload) -> None:
        """An end event; without a name it closes what began last."""
        self._newest_ns = max(self._newest_ns, ts_ns)
        if not self._open or (name and not self._num_open[name]):
            self.num_ends_alone += 1
            return
        position = len(self._open) - 1
        while name and self._open[position].name != name:
            position -= 1
        begun = self._open.pop(position)
        self._num_open[begun.name] -= 1
        self._emit(begun.ts_ns, ts_ns - begun.ts_ns, begun.kind, begun.name, begun.payload, payload)

    def close(self) -> None:
        """No more events: what is open ends with the last event of the track."""
        self.num_never_ended += len(self._open)
        for begun in self._open:
            dur_ns = self._newest_ns - begun.ts_ns
            self._emit(begun.ts_ns, dur_ns, begun.kind, begun.name, begun.payload, begun.payload)
        self._open.clear()
        self._num_open.clear()


def pair_problems(ends_alone: int, never_ended: int) -> list[str]:
    """Sentences about what had no counterpart."""
    problems = []
    if ends_alone:
        problems.append(f"{ends_alone:,} ends without a begin left out")
    if never_ended:
        problems.append(f"{never_ended:,} spans never end; shown up to their track's last event")
    return problems

"""Begin and end events put together: each end closes the newest begin of its name on its track."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Told = TypeVar("Told")
_MOST_OPEN = 10_000
"""Deeper nesting is damage: every end looks through what is open."""


@dataclass
class _Open(Generic[Told]):
    name: str
    ts_ns: int
    kind: str
    told: Told


class Track(Generic[Told]):
    """One track, whose events come in order of time.

    `emit(begin_ns, dur_ns, kind, name, told at the begin, told at the end)` takes each whole span.
    """

    def __init__(self, emit: Callable[[int, int, str, str, Told, Told], None]) -> None:
        self.num_ends_alone = 0
        self.num_never_ended = 0
        self._emit = emit
        self._open: list[_Open[Told]] = []
        self._newest_ns = 0

    @property
    def enclosing(self) -> str:
        """Kind of the innermost span that is open; empty for none."""
        return self._open[-1].kind if self._open else ""

    def begin(self, ts_ns: int, kind: str, name: str, told: Told) -> None:
        """A begin event."""
        self._newest_ns = max(self._newest_ns, ts_ns)
        if len(self._open) >= _MOST_OPEN:
            self.num_never_ended += 1
            return
        self._open.append(_Open(name, ts_ns, kind, told))

    def end(self, ts_ns: int, name: str, told: Told) -> None:
        """An end event; without a name it closes what began last."""
        self._newest_ns = max(self._newest_ns, ts_ns)
        for place in range(len(self._open) - 1, -1, -1):
            found = self._open[place]
            if not name or found.name == name:
                del self._open[place]
                self._emit(
                    found.ts_ns, ts_ns - found.ts_ns, found.kind, found.name, found.told, told
                )
                return
        self.num_ends_alone += 1

    def close(self) -> None:
        """No more events: what is open ends with the last event of the track."""
        self.num_never_ended += len(self._open)
        for found in self._open:
            dur_ns = self._newest_ns - found.ts_ns
            self._emit(found.ts_ns, dur_ns, found.kind, found.name, found.told, found.told)
        self._open.clear()


def pair_problems(ends_alone: int, never_ended: int) -> list[str]:
    """Sentences about what had no counterpart."""
    found = []
    if ends_alone:
        found.append(f"{ends_alone:,} ends without a begin left out")
    if never_ended:
        found.append(f"{never_ended:,} spans never end; shown up to their track's last event")
    return found

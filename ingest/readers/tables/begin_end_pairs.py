"""Begin and end events put together: each end closes the newest begin of its name on its track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Told = TypeVar("Told")
_MOST_OPEN = 2_000
"""Deeper nesting is damage: an end looks through what is open."""


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
        self._num_open: Counter[str] = Counter()  # by name: an end without a begin costs nothing
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
        self._num_open[name] += 1

    def end(self, ts_ns: int, name: str, told: Told) -> None:
        """An end event; without a name it closes what began last."""
        self._newest_ns = max(self._newest_ns, ts_ns)
        if not self._open or (name and not self._num_open[name]):
            self.num_ends_alone += 1
            return
        place = len(self._open) - 1
        while name and self._open[place].name != name:
            place -= 1
        found = self._open.pop(place)
        self._num_open[found.name] -= 1
        self._emit(found.ts_ns, ts_ns - found.ts_ns, found.kind, found.name, found.told, told)

    def close(self) -> None:
        """No more events: what is open ends with the last event of the track."""
        self.num_never_ended += len(self._open)
        for found in self._open:
            dur_ns = self._newest_ns - found.ts_ns
            self._emit(found.ts_ns, dur_ns, found.kind, found.name, found.told, found.told)
        self._open.clear()
        self._num_open.clear()


def pair_problems(ends_alone: int, never_ended: int) -> list[str]:
    """Sentences about what had no counterpart."""
    found = []
    if ends_alone:
        found.append(f"{ends_alone:,} ends without a begin left out")
    if never_ended:
        found.append(f"{never_ended:,} spans never end; shown up to their track's last event")
    return found

"""Joins what was seen of the start-up, moment by moment, to rows of the table `startup`."""

from __future__ import annotations

from collections.abc import Callable

from trace_hooks.sources.startup.stack_phases import Place

PIECE_NS = 2_000_000_000
"""A stretch that goes on has a row at least this often, so that it is seen while it lasts ..."""

PIECE_SHARE = 0.05
"""... or, later, each time the start-up has become longer by this share: 160 rows a day."""

Write = Callable[[int, int, Place], object]
"""Begin and end (monotonic ns) of a stretch, and what the thread did in it."""


class Stretches:
    """Writes each stretch once. Times are `clock.now()` readings that never go back."""

    def __init__(self, write: Write, begin_ns: int) -> None:
        self._write = write
        self._first_ns = begin_ns
        self._begin_ns = begin_ns  # of what is not written yet
        self._last_ns = begin_ns
        self._place: Place | None = None

    def see(self, at_ns: int, place: Place | None) -> None:
        """The thread is in `place` now: the time since the last call counts as that; None: as
        nothing.
        """
        if place != self._place:
            self.close()
            self._place = place
        self._last_ns = max(at_ns, self._last_ns)
        since_ns = self._last_ns - self._begin_ns
        if since_ns >= max(PIECE_NS, PIECE_SHARE * (self._last_ns - self._first_ns)):
            self.close()

    def close(self) -> None:
        """Write what is not written yet."""
        if self._place is not None and self._last_ns > self._begin_ns:
            self._write(self._begin_ns, self._last_ns, self._place)
        self._begin_ns = self._last_ns

"""How long a rank has made no progress: it neither begins a step nor enters a collective.

Every rank pauses at times (an evaluation, a checkpoint, a long step), so that only what is longer
than LOOK_S and than TIMES_USUAL of its longest recent pause counts as long. What lies before the
third step (imports, compilation) says nothing about later pauses.
"""

from __future__ import annotations

import time
from collections import deque

LOOK_S = 4.0
TIMES_USUAL = 2.0

_PAUSES = 20
_PAUSE_S = 0.5
_FIRST_STEPS = 2


class Pauses:
    """How long a rank has been without progress, and its longer pauses so far (monotonic s)."""

    def __init__(self) -> None:
        self._position: tuple[int, int] | None = None
        self._since_s = time.monotonic()
        self._longest_s: deque[float] = deque(maxlen=_PAUSES)

    def see(self, position: tuple[int, int], now_s: float) -> None:
        """Note the step that the rank is in and how many collectives it has entered."""
        if position == self._position:
            return
        known = self._position is not None and self._position[0] >= _FIRST_STEPS
        if known and now_s - self._since_s > _PAUSE_S:
            self._longest_s.append(now_s - self._since_s)
        self._position, self._since_s = position, now_s

    def quiet_s(self, now_s: float) -> float:
        """Seconds since its position last changed."""
        return now_s - self._since_s

    @property
    def longest_s(self) -> float:
        """Its longest recent pause; 0 where none was worth noting."""
        return max(self._longest_s, default=0.0)

    def is_long(self, now_s: float) -> bool:
        """Whether that is longer than usual."""
        return self.quiet_s(now_s) > max(LOOK_S, TIMES_USUAL * self.longest_s)

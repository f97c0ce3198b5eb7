"""A token bucket: how many messages or bytes may pass in a second. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable


class Rate:
    """Lets `per_s` units a second pass, and `burst` at once after a rest. For one thread."""

    def __init__(
        self, per_s: float, burst: float, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst = per_s, burst
        self._seconds = seconds
        self._left = burst
        self._at_s = seconds()

    def take(self, units: float = 1.0) -> bool:
        """Whether this many units may pass now; refused units are not counted."""
        if self.wait_s(units) > 0:
            return False
        self._left -= units
        return True

    def spend(self, units: float) -> None:
        """Count units that pass in any case: the next ones wait longer for it."""
        self._left -= units

    def wait_s(self, units: float = 1.0) -> float:
        """Seconds until `units` may pass; more than a burst passes when the bucket is full."""
        now_s = self._seconds()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return max(0.0, (min(units, self._burst) - self._left) / self._per_s)

"""Whether the other side of a socket reads: the buffer of what waits to be sent must shrink. Pure.

A time limit for each message would also cut a slow connection that works.
"""

from __future__ import annotations


class Stall:
    """For how long nothing of a socket's write buffer has left. For one thread."""

    def __init__(self) -> None:
        self.lasted_s = 0.0
        """Seconds, as of the last look."""
        self._unsent = 0
        self._since_s: float | None = None

    def look(self, unsent: int, now_s: float) -> float:
        """Note how many bytes wait to be sent now, and return `lasted_s`."""
        if unsent == 0 or unsent < self._unsent:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        self._unsent = unsent
        self.lasted_s = 0.0 if self._since_s is None else now_s - self._since_s
        return self.lasted_s

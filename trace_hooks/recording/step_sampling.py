"""Which steps have their spans published one by one; those of the others are summed up."""

from __future__ import annotations

import threading

from trace_hooks.schema import BEFORE_FIRST_STEP


class StepSampling:
    """Every `every`-th step is whole, by its number, so that all ranks choose the same; 1 all, 0
    none. What was asked for is whole, too, and so is what lies before the first step.
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self._asked: tuple[range, ...] = ()  # replaced, never changed: other threads read it
        self._lock = threading.Lock()

    @property
    def leaves_out(self) -> bool:
        """Whether there are steps whose spans are not published."""
        return self.every != 1

    @property
    def num_asked(self) -> int:
        """Ranges of steps that were asked for and are still to come, or just being published."""
        return len(self._asked)

    def ask(self, first: int, last: int) -> None:
        """Have steps published whole, ends included (any thread)."""
        if self.leaves_out:
            with self._lock:
                self._asked = (*self._asked, range(first, last + 1))

    def passed(self, step: int) -> None:
        """Forget what was asked for up to this step: it is published."""
        if self._asked:
            with self._lock:
                self._asked = tuple(asked for asked in self._asked if asked[-1] > step)

    def is_whole(self, step: int) -> bool:
        """Whether the spans of a step are published one by one."""
        if step <= BEFORE_FIRST_STEP or (self.every > 0 and step % self.every == 0):
            return True
        return any(step in asked for asked in self._asked)

"""Which steps have their spans published one by one; those of the others are summed up."""

from __future__ import annotations

from collections import deque

from trace_hooks.schema import BEFORE_FIRST_STEP

MOST_RANGES = 16
"""Ranges of steps that are remembered as asked for; an older one has long passed."""


class StepSampling:
    """Every `every`-th step is whole, by its number, so that all ranks choose the same; 1 all, 0
    none. What was asked for is whole, too, and so is what lies before the first step.
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self._asked: deque[range] = deque(maxlen=MOST_RANGES)

    @property
    def leaves_out(self) -> bool:
        """Whether there are steps whose spans are not published."""
        return self.every != 1

    def ask(self, first: int, last: int) -> None:
        """Have steps published whole, ends included (any thread)."""
        self._asked.append(range(first, last + 1))

    def is_whole(self, step: int) -> bool:
        """Whether the spans of a step are published one by one."""
        if step <= BEFORE_FIRST_STEP or (self.every > 0 and step % self.every == 0):
            return True
        return any(step in asked for asked in tuple(self._asked))

"""Ranges of steps of attempts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class StepRange(msgspec.Struct, frozen=True, order=True):
    """Steps of one attempt, both ends included."""

    attempt: int
    first: int
    last: int

    def __str__(self) -> str:
        steps = f"step {self.first:,}"
        if self.last > self.first:
            steps = f"steps {self.first:,} to {self.last:,}"
        return f"{steps} of attempt {self.attempt}" if self.attempt else steps

    def overlaps(self, other: StepRange) -> bool:
        """Whether they have a step in common."""
        same = self.attempt == other.attempt
        return same and self.first <= other.last and other.first <= self.last

    def covers(self, other: StepRange) -> bool:
        """Whether it has all steps of the other."""
        same = self.attempt == other.attempt
        return same and self.first <= other.first and other.last <= self.last


def united(ranges: Iterable[StepRange]) -> list[StepRange]:
    """The same steps in as few ranges as possible, ascending."""
    found: list[StepRange] = []
    for one in sorted(ranges):
        before = found[-1] if found else None
        if before and before.attempt == one.attempt and one.first <= before.last + 1:
            found[-1] = StepRange(one.attempt, before.first, max(before.last, one.last))
        else:
            found.append(one)
    return found

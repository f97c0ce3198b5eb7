"""Times of logs that are whole seconds, made as exact as the lengths of steps allow.

A time of a second stands for any within it. Steps that follow on each other are placed together, at
the earliest time at which each of them ends in its second.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.readers.tables.logged_step import LoggedStep

_S = 1_000_000_000


def place_within_seconds(steps: Iterable[LoggedStep]) -> None:
    """Set the times of steps, if all that are known are whole seconds."""
    timed = [step for step in steps if step.end_ns is not None]
    timed.sort(key=lambda step: (step.end_ns or 0, step.step))
    if any((step.end_ns or 0) % _S for step in timed):
        return
    stretch = _Stretch()
    for step in timed:
        if not stretch.takes(step):
            stretch.place()
            stretch = _Stretch()
            stretch.takes(step)
    stretch.place()


class _Stretch:
    """Steps between which nothing else happened: the lengths of all of them fit their seconds."""

    def __init__(self) -> None:
        self._steps: list[tuple[LoggedStep, int]] = []
        """with when they end, counted from the end of the first"""
        self._least_ns, self._most_ns = 0, 0

    def takes(self, step: LoggedStep) -> bool:
        """Add a step if it can have followed on the one before."""
        end_ns = step.end_ns or 0
        if not self._steps:
            self._steps.append((step, 0))
            self._least_ns, self._most_ns = end_ns, end_ns + _S - 1
            return True
        before, past_ns = self._steps[-1]
        if step.dur_ns is None or step.step <= before.step:
            return False
        past_ns += step.dur_ns * (step.step - before.step)
        least_ns = max(self._least_ns, end_ns - past_ns)
        most_ns = min(self._most_ns, end_ns + _S - 1 - past_ns)
        if least_ns > most_ns:
            return False
        self._least_ns, self._most_ns = least_ns, most_ns
        self._steps.append((step, past_ns))
        return True

    def place(self) -> None:
        """Set the times of the steps."""
        for step, past_ns in self._steps:
            step.end_ns = self._least_ns + past_ns

"""Whether the steps of a job really were longer: the truth of findings that name nobody."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sample_traces.generate.habits import Float
from sample_traces.generate.phase_log.job import Bool

A_LITTLE, FOR_LONG = 1.05, 20
MUCH, FOR_SHORT = 1.25, 3
"""Steps that take so many times as long, and for how many steps, are worth a finding."""


@dataclass(frozen=True)
class StepTruth:
    """Step times of a job with and without its faults, in any unit; steps count from `first`."""

    with_S: Float
    without_S: Float
    first: int = 0

    def is_longer(self, first_step: int, last_step: int) -> bool:
        """Whether these steps took longer than the same without faults, or than the others did."""
        inside_S = self._inside(first_step, last_step)
        if not inside_S.any():
            return False
        if lasts(self.with_S[inside_S] / self.without_S[inside_S]):
            return True
        before_S = ~inside_S & (np.arange(inside_S.size) < inside_S.argmax())
        others_S = before_S if before_S.sum() >= FOR_SHORT else ~inside_S
        return bool(others_S.any()) and lasts(
            self.with_S[inside_S] / np.median(self.with_S[others_S])
        )

    def num_long(self, first_step: int, last_step: int) -> int:
        """Steps among these that took MUCH longer than the job's median step without faults."""
        inside_S = self._inside(first_step, last_step)
        return int((self.with_S[inside_S] >= MUCH * np.median(self.without_S)).sum())

    def _inside(self, first_step: int, last_step: int) -> Bool:
        step_S = np.arange(self.with_S.size) + self.first
        inside_S: Bool = (step_S >= first_step) & (step_S <= last_step)
        return inside_S


def lasts(ratio_S: Float) -> bool:
    """Whether most of these steps take a little longer for long, or much longer for short."""
    middle = float(np.median(ratio_S))
    enough = (middle >= A_LITTLE and ratio_S.size >= FOR_LONG) or (
        middle >= MUCH and ratio_S.size >= FOR_SHORT
    )
    return bool(enough)

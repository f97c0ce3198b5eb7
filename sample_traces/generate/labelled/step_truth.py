"""Whether the steps of a job really were longer: the truth of findings that name nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sample_traces.generate.habits import Float
from sample_traces.generate.phase_log.job import Bool

A_LITTLE, FOR_LONG = 1.05, 20
MUCH, FOR_SHORT = 1.25, 3
"""Steps that take so many times as long, and for how many steps, are worth a finding."""
CLEARLY_LONGER = 1.06
"""Mean step time with / without a fault from which a finding about the job is expected: a little
more than makes it true.
"""
CLEAR = 5.0
"""Standard deviations of healthy ranks by which a fault must show."""

_AROUND = 11
"""Steps whose median is the usual one: few long ones do not move it, and a new level soon does."""
_WARM_UP, _FEWEST, _MOST = 3, 2, 0.75


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

    def are_longer(self, steps: Iterable[int]) -> bool:
        """Whether most of these single steps, two at least, take A_LITTLE longer than those around
        them; those in which a job warms up do not count.
        """
        padded_S = np.pad(self.with_S, _AROUND // 2, mode="reflect")
        around_S = np.median(np.lib.stride_tricks.sliding_window_view(padded_S, _AROUND), axis=1)
        columns = [step - self.first for step in steps]
        columns = [column for column in columns if _WARM_UP <= column < self.with_S.size]
        longer = [self.with_S[column] >= A_LITTLE * around_S[column] for column in columns]
        return bool(sum(longer) >= max(_FEWEST, _MOST * len(columns)))

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


def not_longer(
    healthy_S: Float, without_S: Float, whole_S: Float, hit_S: Bool, fewest_past: int
) -> str:
    """Why the steps that a fault hits are not clearly longer for it, empty where they are.

    Step times of the job without faults, without this fault, and with all; `fewest_past`: steps
    before it that show what is usual.
    """
    num_hit, usual = int(hit_S.sum()), float(np.median(healthy_S))
    if hit_S[:fewest_past].any():
        return "acts from the first steps on, and its own timer does not show it"
    longer = float((whole_S - without_S).sum()) / num_hit / usual
    enough = (longer >= CLEARLY_LONGER - 1 and num_hit >= FOR_LONG) or (
        longer >= MUCH - 1 and num_hit >= FOR_SHORT
    )
    if not enough:
        return "the timers do not show it, and steps are hardly longer"
    noise = float(window_means(healthy_S[:, None], num_hit).std())
    if longer * usual < CLEAR / 2 * noise:
        return "the timers do not show it, and step times vary as much by themselves"
    return ""


def window_means(times_SR: Float, length: int) -> Float:
    """Means over windows of so many steps, at most a third of all: (windows, R)."""
    length = max(min(length, times_SR.shape[0] // 3), 1)
    num = times_SR.shape[0] // length
    windows = times_SR[: num * length].reshape(num, length, -1)
    means: Float = windows.mean(axis=1)
    return means

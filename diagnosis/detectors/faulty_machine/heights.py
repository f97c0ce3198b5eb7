"""How high the sums of healthy machines get, and from which height on a machine stands out.

The heights of all machines that nothing is suspected of are the calibration, as in conformal tests:
the p of a height is the share of them that are as high, beyond the highest of them by the
exponential tail that sums of this kind have. Holm over machines x metrics then allows as many
alarms in a block of time as FALSE_PER_1000_HOURS does.

Shapes: R rows, N machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.faulty_machine.series import Singles

FALSE_PER_1000_HOURS = 0.2
"""Alarms by chance in 1,000 machine-hours; continuity takes away more of them."""

LEAST_HEIGHT, CERTAIN_HEIGHT = 14.0, 90.0
"""Sums below the first never count, sums above the second always: what lasts is no noise."""

_TAIL, _FEWEST_IN_TAIL, _MOST = 0.02, 8, 20_000
_LEAST_SLOPE, _PRIOR = 1.0, 20
"""Mean excess of the tail in sigmas: that of white noise is .5; and how many values the rows'
common one counts for."""


@dataclass
class Heights:
    """State: the newest healthy heights of each row, and the limits that follow from them."""

    num_rows: int
    block_s: float
    seen: list[npt.NDArray[np.float32]] = field(default_factory=list)
    begin_R: Singles = field(init=False)
    slope_R: Singles = field(init=False)
    limit_R: Singles = field(init=False)

    def __post_init__(self) -> None:
        self.seen = [np.zeros(0, np.float32) for _ in range(self.num_rows)]
        self._fit()

    def add(self, height_RN: Singles, is_healthy_N: npt.NDArray[np.bool_]) -> None:
        """The heights of one block of time."""
        for row in range(self.num_rows):
            new = height_RN[row, is_healthy_N]
            joined = np.concatenate([self.seen[row], new.astype(np.float32)])
            self.seen[row] = joined[-_MOST:]
        self._fit()

    def _fit(self) -> None:
        begin, excess, number = [], [], []
        for heights in self.seen:
            kept = min(max(int(_TAIL * heights.size), _FEWEST_IN_TAIL), heights.size)
            highest = np.minimum(np.sort(heights)[heights.size - kept :], CERTAIN_HEIGHT)
            begin.append(float(highest[0]) if kept else 0.0)
            excess.append(float((highest - highest[0]).sum()) if kept else 0.0)
            number.append(kept)
        excess_R, number_R = np.array(excess), np.array(number)
        common = max(float(excess_R.sum()) / max(number_R.sum(), 1), _LEAST_SLOPE)
        slope_R = (excess_R + _PRIOR * common) / (number_R + _PRIOR)
        self.begin_R = np.array(begin, np.float32)
        self.slope_R = np.maximum(slope_R, _LEAST_SLOPE).astype(np.float32)
        share_R = number_R / np.maximum([heights.size for heights in self.seen], 1)
        share_R = np.where(number_R, share_R, 1.0)
        least_p = self.least_p()
        limit_R = self.begin_R + self.slope_R * np.log(np.maximum(share_R / least_p, 1.0))
        self.limit_R = np.clip(limit_R, LEAST_HEIGHT, CERTAIN_HEIGHT).astype(np.float32)
        self._share_R = share_R

    def least_p(self) -> float:
        """What Holm leaves for the most extreme of machines x rows in a block: their number cancels
        against the machine-hours of the block but for the rows.
        """
        return FALSE_PER_1000_HOURS / 1_000 * self.block_s / 3_600 / self.num_rows

    def p_of(self, height_RN: Singles) -> npt.NDArray[np.float64]:
        """Chance that a healthy machine reaches this height."""
        p_RN = np.ones(height_RN.shape)
        for row, heights in enumerate(self.seen):
            ordered = np.sort(heights)
            above = heights.size - np.searchsorted(ordered, height_RN[row])
            p_RN[row] = (1 + above) / (1 + heights.size)
        beyond_RN = np.maximum(height_RN - self.begin_R[:, None], 0.0)
        tail_RN = self._share_R[:, None] * np.exp(-beyond_RN / self.slope_R[:, None])
        return np.where(beyond_RN > 0, np.minimum(tail_RN, p_RN), p_RN)


def holm(p_RN: npt.NDArray[np.float64], level: float) -> npt.NDArray[np.bool_]:
    """What stands out of all of them, with the chance that any does wrongly at most `level`."""
    order = np.argsort(p_RN, axis=None)
    ordered = p_RN.reshape(-1)[order]
    limits = level / (ordered.size - np.arange(ordered.size))
    failed = np.flatnonzero(ordered > limits)
    num = int(failed[0]) if failed.size else ordered.size
    out = np.zeros(ordered.size, np.bool_)
    out[order[:num]] = True
    return out.reshape(p_RN.shape)

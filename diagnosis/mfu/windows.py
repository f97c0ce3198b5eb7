"""Step times of two windows made comparable, and what a change of them costs.

Shape suffixes: P parts, V values (parts of usual steps, then the surplus of long ones by part), S
steps, N draws.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.mfu.parts import NAMES
from diagnosis.mfu.step_times import StepTimes

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LONG_MADS = 6.0
"""Median absolute deviations beyond which a step is unusually long: four standard deviations."""
_MOST_LONG = 0.125
"""Of the steps: every tenth may be unusually long, and chance adds some."""


def same_work(before: StepTimes, after: StepTimes) -> float:
    """Work of a mean step before, in that of one after: by what their FLOPs take at peak, else by
    the FLOPs; 1 where these are unknown.
    """
    for name in ("ideal_ms_S", "tflop_S"):
        work = [float(getattr(times, name).mean()) for times in (before, after)]
        if np.isfinite(work).all() and min(work) > 0:
            return work[0] / work[1]
    return 1.0


def usual_and_surplus(part_PS: Floats, long_S: Bools) -> Floats:
    """(V, S): times of the parts, as usual steps have them, and what long steps have more."""
    if long_S.all():
        return np.concatenate((part_PS, np.zeros_like(part_PS)))
    usual_P1 = part_PS[:, ~long_S].mean(axis=1, keepdims=True)
    surplus_PS = np.where(long_S, part_PS - usual_P1, 0.0)
    return np.concatenate((part_PS - surplus_PS, surplus_PS))


def is_long(step_ms_S: Floats) -> Bools:
    """Which steps are unusually long; none where so many are that they are no exception."""
    middle = np.median(step_ms_S)
    spread = np.median(np.abs(step_ms_S - middle))
    long_S = (step_ms_S > middle + LONG_MADS * spread) & (spread > 0)
    return np.asarray(long_S & (long_S.mean() <= _MOST_LONG), dtype=np.bool_)


def points_of(before_NV: Floats, after_NV: Floats, ideal_ms: float | None) -> Floats:
    """(N, P + 1): points of MFU that each part costs usual steps, or percent of the step before
    where MFU is unknown, and what unusually long steps cost on top. `ideal_ms`: what the FLOPs of a
    step take at peak.
    """
    num = len(NAMES)
    usual_NP = after_NV[:, :num] - before_NV[:, :num]
    all_N1 = (after_NV - before_NV).sum(axis=1, keepdims=True)
    by_usual_N1 = points_per_ms(before_NV[:, :num], after_NV[:, :num], ideal_ms)
    by_all_N1 = points_per_ms(before_NV, after_NV, ideal_ms)
    long_N1 = all_N1 * by_all_N1 - usual_NP.sum(axis=1, keepdims=True) * by_usual_N1
    return np.concatenate((usual_NP * by_usual_N1, long_N1), axis=1)


def points_per_ms(before_NV: Floats, after_NV: Floats, ideal_ms: float | None) -> Floats:
    """(N, 1): points that one more ms per step costs."""
    before_N1, after_N1 = (values.sum(axis=1, keepdims=True) for values in (before_NV, after_NV))
    scale = 100 / before_N1 if ideal_ms is None else 100 * ideal_ms / (before_N1 * after_N1)
    return np.asarray(scale, dtype=np.float64)

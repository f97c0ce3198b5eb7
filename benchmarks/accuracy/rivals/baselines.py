"""Two simple rules to compare with: an outlier of compute, and who comes last at a stage's end.

Each is what --rival takes: a function from the folder that a job leaves to the ranks it blames.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.accuracy.rivals.phases import phases_of

Z_LEAST, STEPS = 3.5, 10
"""Modified z-score (Iglewicz and Hoaglin) that counts as an outlier, and for how many steps."""
WINDOW, MOSTLY = 20, 0.8
"""Steps in which a rank must come last, and in which share of them."""

_PER_DEVIATION = 0.6745
"""Median absolute deviation of normal noise, in standard deviations."""


def robust_z(folder: Path) -> list[int]:
    """The rank whose compute is an outlier among its stage for STEPS steps in a row, if any."""
    phases, worst, found = phases_of(folder), 0.0, []
    for rank_R in _stages(phases.stage_R):
        times_SR = phases.compute[:, rank_R]
        apart_SR = times_SR - np.median(times_SR, axis=1, keepdims=True)
        spread_S1 = np.median(np.abs(apart_SR), axis=1, keepdims=True)
        z_SR = _PER_DEVIATION * apart_SR / np.maximum(spread_S1, 1e-6)
        for index, rank in enumerate(rank_R.tolist()):
            score = _longest_held(z_SR[:, index], Z_LEAST, STEPS)
            if score > worst:
                worst, found = score, [rank]
    return found


def _longest_held(z_S: npt.NDArray[np.float64], least: float, length: int) -> float:
    """Greatest median over steps in a row that all exceed the least; 0: there are none."""
    if z_S.size < length:
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(z_S, length)
    held = windows[windows.min(axis=1) > least]
    return float(np.median(held, axis=1).max()) if held.size else 0.0


def stage_frontier(folder: Path) -> list[int]:
    """Ranks that are the last of their stage to be through with data and compute, mostly."""
    phases, found = phases_of(folder), set()
    for rank_R in _stages(phases.stage_R):
        last_S = (phases.data + phases.compute)[:, rank_R].argmax(axis=1)
        is_last_SR = last_S[:, None] == np.arange(rank_R.size)
        if last_S.size < WINDOW or rank_R.size < 2:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(is_last_SR, WINDOW, axis=0)
        often_R = (windows.mean(axis=-1) >= MOSTLY).any(axis=0)
        found |= set(rank_R[often_R].tolist())
    return sorted(found)


def _stages(stage_R: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [np.flatnonzero(stage_R == stage) for stage in np.unique(stage_R)]


BASELINES = {"robust z": robust_z, "stage frontier": stage_frontier}

"""Noise of machines, cut out of what the ranks of real jobs recorded.

sample_traces/recorded/machine_noise.npz holds, per real job, metrics of its eight ranks at 1 Hz
(sample_traces/jobs/record_machine_noise.py). Each rank's distance to the median of the others in
the same second, in units of its usual one, is a strip of noise; a generated series walks along a
strip from anywhere, to and fro. So bursts and heavy tails are those of real jobs. Memory and page
faults are left out: what they differ by grows, and is no noise.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RECORDED = Path(__file__).resolve().parents[2] / "recorded" / "machine_noise.npz"

_LEFT_OUT = (4, 5)
"""Page faults and memory, as indices of the recorded metrics."""

_MOST = 11.0


@cache
def strips() -> tuple[Floats, ...]:
    """Series of noise with a usual size of one."""
    found = []
    with np.load(RECORDED) as arrays:
        for name in sorted(arrays.files):
            if name.startswith("values"):
                scale_M = arrays[name.replace("values", "scale")]
                for index, values_RT in enumerate(arrays[name] * scale_M[:, None, None]):
                    found += [] if index in _LEFT_OUT else _strips(values_RT)
    return tuple(found)


def _strips(values_RT: Floats) -> list[Floats]:
    away_RT = values_RT - np.median(values_RT, axis=0)
    away_RT = away_RT - np.median(away_RT, axis=1, keepdims=True)
    size_R1 = 1.4826 * np.median(np.abs(away_RT), axis=1, keepdims=True)
    usable = size_R1[:, 0] > 0
    return list(np.clip(away_RT[usable] / size_R1[usable], -_MOST, _MOST))


def noise(rng: np.random.Generator, num_series: int, num_seconds: int) -> Floats:
    """[series, second], each of one strip, in either direction and of either sign."""
    pool = strips()
    chosen = rng.integers(len(pool), size=num_series)
    begins = rng.random(num_series)
    signs = rng.choice((-1.0, 1.0), size=num_series)
    return np.array(
        [_walk(pool[k], b, num_seconds) * s for k, b, s in zip(chosen, begins, signs, strict=True)]
    )


def _walk(strip_T: Floats, begin: float, num_seconds: int) -> Floats:
    """Along a strip and back again, as often as it takes."""
    there_and_back = np.concatenate([strip_T, strip_T[-2:0:-1]])
    at = (int(begin * there_and_back.size) + np.arange(num_seconds)) % there_and_back.size
    walked: Floats = there_and_back[at]
    return walked


def wander(rng: np.random.Generator, num_series: int, num_seconds: int, time_s: float) -> Floats:
    """Slow random movement of size one that forgets itself in `time_s`, [series, second]."""
    keeps = np.exp(-_WANDER_S / time_s)
    knots = rng.standard_normal((num_series, num_seconds // _WANDER_S + 2))
    for knot in range(1, knots.shape[1]):
        knots[:, knot] = keeps * knots[:, knot - 1] + np.sqrt(1 - keeps**2) * knots[:, knot]
    seconds = np.arange(num_seconds) / _WANDER_S
    low = seconds.astype(int)
    part = seconds - low
    return np.asarray(knots[:, low] * (1 - part) + knots[:, low + 1] * part)


_WANDER_S = 10
"""Between the knots of what wanders."""

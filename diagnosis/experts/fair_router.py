"""How uneven loads of experts are by chance alone: what a fair router shows.

T tokens make T x K choices, each of any of E experts with equal probability. An expert's load is
then binomial, and in 99 of 100 steps the greatest of E loads is below the quantile 0.99^(1/E) of
one load, the normal one with the correction of Cornish and Fisher for skew. A router that
never chooses an expert twice for one token scatters a little less: by sqrt(1 - K/E). One whose
tokens are alike (neighbours in a text) scatters more.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RARE = 0.01
"""Share of steps in which a fair router exceeds its noise."""


def p99_max_violation(experts: int, top_k: int, tokens: float) -> float:
    """MaxVio (max / mean - 1) that a fair router stays below in 99 of 100 steps.

    `tokens`: those of the step, over all micro-batches and ranks. Infinite without tokens.
    """
    return float(max_violation_noise(experts, np.array([tokens * top_k], np.float64))[0])


def max_violation_noise(parts: int, choices: npt.ArrayLike) -> Floats:
    """The same for `parts` equal parts (experts, or those of EP ranks), in the shape of `choices`.

    `choices`: tokens x experts for each token. Raises ValueError for fewer than one part.
    """
    mean, sd, skew = _moments(parts, choices)
    return np.where(mean > 0, sd * _corrected(_z(parts), skew), np.inf)


def p01_least_load(experts: int, top_k: int, tokens: float) -> float:
    """Least load / mean that a fair router stays above in 99 of 100 steps; 0 at the least."""
    mean, sd, skew = _moments(experts, np.array([tokens * top_k], np.float64))
    least = np.where(mean > 0, 1 + sd * _corrected(-_z(experts), skew), 0.0)
    return float(np.maximum(least, 0.0)[0])


def _moments(parts: int, choices: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Mean load; its standard deviation / mean; its skewness."""
    if parts < 1:
        raise ValueError(f"there are {parts} parts to share the tokens; give at least 1")
    share = 1 / parts
    mean = np.maximum(np.asarray(choices, np.float64), 0.0) * share
    sd = np.sqrt(mean * (1 - share))
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.where(sd > 0, (1 - 2 * share) / sd, 0.0)
        relative = np.where(mean > 0, sd / mean, 0.0)
    return mean, relative, skew


def _corrected(z: float, skew: Floats) -> Floats:
    return z + skew * (z * z - 1) / 6


@cache
def _z(parts: int) -> float:
    """Normal quantile that the greatest of so many loads stays below in 99 of 100 steps."""
    return NormalDist().inv_cdf((1 - RARE) ** (1 / parts))

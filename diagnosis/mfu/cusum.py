"""Whether the level of a series rises at some point: the greatest cumulative sum (CUSUM).

What disturbs a step may disturb the next ones, too, so the sum is compared with those of series
without a rise whose values depend on each other as much: autoregressive noise of order 1, with the
correlation that the series has around two levels or around a line that climbs from some block on,
whichever fits better (corrected for the bias of short series, Kendall 1954).

Shape suffixes: N series, B blocks of each, F blocks from which a line climbs.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CHANCE = 0.001
"""That a rise is found in a series without one; some times as much in short series that vary
slowly, as their correlation is known badly.
"""
LEAST_SIDE = 2
"""Blocks before and after a rise."""
_MOST_MEMORY = 0.9
_GRID = 20
"""Limits are known for correlations of whole twentieths."""
_STARTS = 20
_SERIES = 10_000
_SEED = 1954


def rise(block_B: Floats) -> int | None:
    """The first block of the higher level; None where no rise stands out."""
    sums_N, memory_N, first_N = _greatest(block_B[None])
    is_clear = sums_N[0] > _limit(block_B.size, _rounded(memory_N[0]))  # not where NaN: constant
    return int(first_N[0]) if is_clear else None


def half_found(block_B: Floats) -> float:
    """The height of a rise in the middle that would be found in half of such series."""
    _, memory_N, first_N = _greatest(block_B[None])
    rest_NB, _ = _without_rise(block_B[None], first_N)
    spread = float(_deviation(rest_NB, memory_N)[0])
    # a step of height d in the middle makes the greatest sum d * num / 4
    return 4 * _limit(block_B.size, _rounded(memory_N[0])) * spread / math.sqrt(block_B.size)


def _greatest(block_NB: Floats) -> tuple[Floats, Floats, Ints]:
    """Greatest sum / its deviation, correlation of neighbours, and where each series rises."""
    num = block_NB.shape[1]
    centred_NB = block_NB - block_NB.mean(axis=1, keepdims=True)
    sums_NB = np.cumsum(centred_NB[:, ::-1], axis=1)[:, ::-1]  # of a block and all later ones
    first_N = LEAST_SIDE + sums_NB[:, LEAST_SIDE : num - LEAST_SIDE + 1].argmax(axis=1)
    rest_NB, memory_N = _without_rise(block_NB, first_N)
    greatest_N = sums_NB[np.arange(first_N.size), first_N]
    deviation_N = _deviation(rest_NB, memory_N) * math.sqrt(num)
    with np.errstate(divide="ignore", invalid="ignore"):
        return greatest_N / deviation_N, memory_N, first_N


def _without_rise(block_NB: Floats, first_N: Ints) -> tuple[Floats, Floats]:
    """What is left without the rise, and the correlation of neighbours in it."""
    levels_NB, climbs_NB = block_NB - _levels(block_NB, first_N), _without_climb(block_NB)
    fits_N1 = (climbs_NB**2).sum(axis=1, keepdims=True) < (levels_NB**2).sum(axis=1, keepdims=True)
    rest_NB: Floats = np.where(fits_N1, climbs_NB, levels_NB)
    squares_N = np.maximum((rest_NB**2).sum(axis=1), np.finfo(float).tiny)
    memory_N = (rest_NB[:, 1:] * rest_NB[:, :-1]).sum(axis=1) / squares_N
    unbiased_N = memory_N + (1 + 3 * np.maximum(memory_N, 0)) / block_NB.shape[1]
    return rest_NB, np.clip(unbiased_N, 0.0, _MOST_MEMORY)


def _levels(block_NB: Floats, first_N: Ints) -> Floats:
    """Two levels, from the block on at which each series rises."""
    num = block_NB.shape[1]
    is_later_NB = np.arange(num) >= first_N[:, None]
    later_N1 = np.where(is_later_NB, block_NB, 0).sum(axis=1, keepdims=True)
    earlier_N1 = np.where(is_later_NB, 0, block_NB).sum(axis=1, keepdims=True)
    after_N1, before_N1 = later_N1 / (num - first_N[:, None]), earlier_N1 / first_N[:, None]
    levels: Floats = np.where(is_later_NB, after_N1, before_N1)
    return levels


def _without_climb(block_NB: Floats) -> Floats:
    """What the best of the lines leaves that climb from some block on."""
    num = block_NB.shape[1]
    starts_F = np.arange(0, num - LEAST_SIDE, max(num // _STARTS, 1))
    line_FB = np.maximum(np.arange(num) - starts_F[:, None], 0.0)
    line_FB -= line_FB.mean(axis=1, keepdims=True)
    line_FB /= np.sqrt((line_FB**2).sum(axis=1, keepdims=True))
    centred_NB = block_NB - block_NB.mean(axis=1, keepdims=True)
    slope_NF = np.maximum(centred_NB @ line_FB.T, 0.0)
    best_N = slope_NF.argmax(axis=1)
    slope_N1 = slope_NF[np.arange(best_N.size), best_N][:, None]
    left: Floats = centred_NB - slope_N1 * line_FB[best_N]
    return left


def _deviation(rest_NB: Floats, memory_N: Floats) -> Floats:
    """Long-run standard deviation of autoregressive noise; three numbers are fitted."""
    new_NB = rest_NB[:, 1:] - memory_N[:, None] * rest_NB[:, :-1]
    deviation_N: Floats = np.sqrt((new_NB**2).sum(axis=1) / (rest_NB.shape[1] - 3)) / (1 - memory_N)
    return deviation_N


def _rounded(memory: float) -> int:
    return math.ceil(round(memory * _GRID, 6))


@lru_cache(maxsize=512)
def _limit(num: int, memory: int) -> float:
    """What the greatest sum of a series without a rise exceeds with a probability of CHANCE."""
    random = np.random.default_rng(_SEED)
    keeps = memory / _GRID
    noise_NB = random.standard_normal((_SERIES, num))
    noise_NB[:, 0] /= math.sqrt(1 - keeps**2)
    for block in range(1, num):
        noise_NB[:, block] += keeps * noise_NB[:, block - 1]
    return float(np.quantile(_greatest(noise_NB)[0], 1 - CHANCE))

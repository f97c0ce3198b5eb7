"""Whether the level of a series rises at some point: the greatest cumulative sum (CUSUM).

What disturbs a step may disturb the next ones, too, so the sum is compared with those of series
without a rise whose values depend on each other as much: autoregressive noise of order 1, with the
correlation that the series has around the best fit of a level and, from some block on, a line that
does not fall (corrected for the bias of short series, Kendall 1954).

Shape suffixes: N series, B blocks of each, F blocks from which the line begins.
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
_MAIN_SHARE, _CLEAR = 0.5, 3.0
"""Of its rise a series climbs, and by so many standard deviations."""
_MOST_MEMORY = 0.9
_GRID = 20
"""Limits are known for correlations of whole twentieths."""
_SERIES = 10_000
_SEED = 1954


def rise(block_B: Floats) -> int | None:
    """The first block of the higher level; None where no rise stands out."""
    sums_N, memory_N, first_N = _greatest(block_B[None])
    is_clear = sums_N[0] > _limit(block_B.size, _rounded(memory_N[0]))  # not where NaN: constant
    return int(first_N[0]) if is_clear else None


def half_found(block_B: Floats) -> float:
    """The height of a rise in the middle that would be found in half of such series."""
    rest_NB, memory_N = _without_rise(block_B[None])
    spread = float(_deviation(rest_NB, memory_N)[0])
    # a step of height d in the middle makes the greatest sum d * num / 4
    return 4 * _limit(block_B.size, _rounded(memory_N[0])) * spread / math.sqrt(block_B.size)


def climb(block_B: Floats) -> int | None:
    """The block from which a series climbs all the time; None where it rises at once."""
    centred_NB = block_B[None] - block_B.mean()
    first, slope = (float(found[0]) for found in _best_fit(centred_NB))
    before_B, after_B = np.split(block_B, [int(first)])
    climbed = slope * (after_B.size - 1)
    risen = after_B.mean() + climbed / 2 - before_B.mean()  # at its end
    rest_NB, memory_N = _without_rise(block_B[None])
    noise = math.sqrt(12 / after_B.size) * float(_deviation(rest_NB, memory_N)[0])  # of `climbed`
    return int(first) if climbed > max(_MAIN_SHARE * risen, _CLEAR * noise) else None


def _greatest(block_NB: Floats) -> tuple[Floats, Floats, Ints]:
    """Greatest sum / its deviation, correlation of neighbours, and where each series rises."""
    num = block_NB.shape[1]
    centred_NB = block_NB - block_NB.mean(axis=1, keepdims=True)
    sums_NB = np.cumsum(centred_NB[:, ::-1], axis=1)[:, ::-1]  # of a block and all later ones
    first_N = LEAST_SIDE + sums_NB[:, LEAST_SIDE : num - LEAST_SIDE + 1].argmax(axis=1)
    rest_NB, memory_N = _without_rise(block_NB)
    greatest_N = sums_NB[np.arange(first_N.size), first_N]
    deviation_N = _deviation(rest_NB, memory_N) * math.sqrt(num)
    with np.errstate(divide="ignore", invalid="ignore"):
        return greatest_N / deviation_N, memory_N, first_N


def _without_rise(block_NB: Floats) -> tuple[Floats, Floats]:
    """What is left without the rise, and the correlation of neighbours in it."""
    num = block_NB.shape[1]
    centred_NB = block_NB - block_NB.mean(axis=1, keepdims=True)
    first_N, slope_N = _best_fit(centred_NB)
    at_B = np.arange(num)
    is_later_NB = at_B >= first_N[:, None]
    line_NB = slope_N[:, None] * at_B
    level_NB = _mean_where(centred_NB, ~is_later_NB)
    begun_NB = _mean_where(centred_NB - line_NB, is_later_NB)
    rest_NB: Floats = centred_NB - np.where(is_later_NB, begun_NB + line_NB, level_NB)
    squares_N = np.maximum((rest_NB**2).sum(axis=1), np.finfo(float).tiny)
    memory_N = (rest_NB[:, 1:] * rest_NB[:, :-1]).sum(axis=1) / squares_N
    unbiased_N = memory_N + (1 + 3 * np.maximum(memory_N, 0)) / num
    return rest_NB, np.clip(unbiased_N, 0.0, _MOST_MEMORY)


def _mean_where(values_NB: Floats, is_in_NB: npt.NDArray[np.bool_]) -> Floats:
    """(N, 1): means of some blocks of each series."""
    sums_N1 = np.where(is_in_NB, values_NB, 0.0).sum(axis=1, keepdims=True)
    means: Floats = sums_N1 / is_in_NB.sum(axis=1, keepdims=True)
    return means


def _best_fit(centred_NB: Floats) -> tuple[Ints, Floats]:
    """Where the line begins, and its slope: least squares of sums over all blocks from F on."""
    num = centred_NB.shape[1]
    first_F = np.arange(LEAST_SIDE, num - LEAST_SIDE + 1)
    at_B = np.arange(num, dtype=np.float64)

    def later(values_B: Floats) -> Floats:
        sums: Floats = np.cumsum(values_B[..., ::-1], axis=-1)[..., ::-1][..., first_F]
        return sums

    count_F = num - first_F
    sum_NF, moment_NF = later(centred_NB), later(centred_NB * at_B)
    spread_F = later(at_B**2) - later(at_B) ** 2 / count_F
    slope_NF = np.maximum((moment_NF - later(at_B) * sum_NF / count_F) / spread_F, 0.0)
    # of all squares, those that the level before, the mean after and the line take away
    taken_NF = sum_NF**2 / count_F + sum_NF**2 / first_F + slope_NF**2 * spread_F
    best_N = taken_NF.argmax(axis=1)
    return first_F[best_N], slope_NF[np.arange(best_N.size), best_N]


def _deviation(rest_NB: Floats, memory_N: Floats) -> Floats:
    """Long-run standard deviation of autoregressive noise; four numbers are fitted."""
    new_NB = rest_NB[:, 1:] - memory_N[:, None] * rest_NB[:, :-1]
    deviation_N: Floats = np.sqrt((new_NB**2).sum(axis=1) / (rest_NB.shape[1] - 4)) / (1 - memory_N)
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

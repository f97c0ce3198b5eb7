"""Block bootstrap of means over steps that depend on the steps before them.

Whole blocks of neighbouring steps are drawn again, so that what lasts for some steps stays together
(circular block bootstrap, Politis and Romano 1992).

Shape suffixes: S steps, V values of a step, N draws.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS = 1000
_CLEAR = 2.0
"""An autocorrelation beyond so many standard errors (1 / sqrt(steps)) is no chance."""
_LEAST_BLOCKS = 4


def block_length(values_S: Floats) -> int:
    """How many steps stay together: by Politis and White (2004, corrected 2009), of this series."""
    num = values_S.size
    most = max(num // _LEAST_BLOCKS, 1)
    centred_S = values_S - values_S.mean()
    if num < 2 * _LEAST_BLOCKS or not centred_S.any():
        return 1
    covariance = np.correlate(centred_S, centred_S, "full")[num - 1 :][: most + 1] / num
    clear = np.abs(covariance / covariance[0]) > _CLEAR * np.sqrt(np.log10(num) / num)
    last = int(np.flatnonzero(clear).max())  # lag 0 always is
    if last == 0:
        return 1
    lag = np.arange(1, min(2 * last, covariance.size - 1) + 1)
    weight = np.clip(2 * (1 - lag / (2 * last)), 0.0, 1.0)  # flat-top window
    slope = 2 * float((weight * lag * covariance[lag]).sum())
    spectrum = float(covariance[0] + 2 * (weight * covariance[lag]).sum())
    best = (1.5 * (slope / spectrum) ** 2 * num) ** (1 / 3) if spectrum > 0 else most
    return int(np.clip(round(best), 1, most))


def drawn_means(
    value_VS: Floats, length: int, random: np.random.Generator, draws: int = DRAWS
) -> Floats:
    """(N, V): means of each value over steps that were drawn in blocks of `length`."""
    num = value_VS.shape[1]
    blocks = -(-num // length)
    first_NB = random.integers(num, size=(draws, blocks))
    step_NS = (first_NB[:, :, None] + np.arange(length)).reshape(draws, -1)[:, :num] % num
    count_NS = np.zeros((draws, num))
    np.add.at(count_NS, (np.arange(draws)[:, None], step_NS), 1.0)
    means: Floats = count_NS @ value_VS.T / num
    return means

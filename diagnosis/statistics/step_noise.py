"""By how much values of successive steps differ for mere noise."""

from __future__ import annotations

import numpy as np

from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_times import middle
from diagnosis.statistics.rank_tables import Floats


def step_noise(values: Floats) -> float:
    """What noise reaches, in the unit of the values (..., S steps); 0 where no two steps are known.

    NOISE_MADS times the median difference of a step and the next, which a level that changes now
    and then does not widen; / sqrt(2), as both have noise.
    """
    noise = NOISE_MADS * middle(np.abs(np.diff(values, axis=-1))) / np.sqrt(2)
    return float(noise) if np.isfinite(noise) else 0.0

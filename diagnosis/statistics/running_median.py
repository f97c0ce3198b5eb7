"""Levels that may change for good: the running median of each row.

Against it single long steps stand out, and a rank that is slow from some step on does not.
"""

from __future__ import annotations

import numpy as np

from diagnosis.statistics.rank_tables import Floats

RUNNING_STEPS = 11
"""Odd; up to five long steps of eleven do not move the median."""


def running_medians(values_RS: Floats, width: int = RUNNING_STEPS) -> Floats:
    """Median of the `width` steps around each one, fewer at both ends; NaN of unknown ones only."""
    if not values_RS.shape[-1]:
        return values_RS.copy()
    half = width // 2
    edge_RH = np.full((*values_RS.shape[:-1], half), np.nan)
    padded = np.concatenate((edge_RH, values_RS, edge_RH), axis=-1)
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=-1)
    found_RS = np.full(values_RS.shape, np.nan)
    known_RS = np.isfinite(around).any(axis=-1)
    found_RS[known_RS] = np.nanmedian(around[known_RS], axis=-1)
    return found_RS

"""Other ways to name a machine by its metrics, for benchmarks/machines.py only.

Each gives, per step of 4 seconds, the machine that is furthest out and how far; a machine is named
once it is that machine, above a threshold, for as long as the detector's own continuity asks.
Thresholds are chosen on the seeds on which the detector was developed, for the best F1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

STRIDE_S, WINDOW_S = 4, 8
LASTS_S = 64.0
"""As the detector: hiccups of up to a minute are no faults."""


def prepared(values_MTN: Singles) -> Singles:
    """Gaps filled with the nearest sample, each metric between 0 and 1, as Minder does."""
    num = values_MTN.shape[1]
    known = np.isfinite(values_MTN)
    seconds_1T1 = np.arange(num)[None, :, None]
    before = np.maximum.accumulate(np.where(known, seconds_1T1, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, seconds_1T1, 2 * num)[:, ::-1], axis=1)[:, ::-1]
    is_nearer = (seconds_1T1 - before <= after - seconds_1T1) & (before >= 0)
    nearest = np.clip(np.where(is_nearer, before, after), 0, num - 1)
    filled = np.nan_to_num(np.take_along_axis(values_MTN, nearest, axis=1))
    low = filled.min(axis=(1, 2), keepdims=True)
    span = filled.max(axis=(1, 2), keepdims=True) - low
    return np.asarray((filled - low) / np.maximum(span, 1e-12), np.float32)


def windows(prepared_MTN: Singles) -> Singles:
    """Means over windows, one every STRIDE_S: [M, W, N]."""
    sums = np.cumsum(prepared_MTN, axis=1, dtype=np.float64)
    ends = np.arange(WINDOW_S, prepared_MTN.shape[1], STRIDE_S)
    return np.asarray((sums[:, ends] - sums[:, ends - WINDOW_S]) / WINDOW_S, np.float32)


def named(
    top_W: npt.NDArray[np.intp], score_W: Floats, threshold: float
) -> list[tuple[int, float]]:
    """Machines that stay out for LASTS_S, with the second in which they are named."""
    least, found, seen = int(np.ceil(LASTS_S / STRIDE_S)), [], set()
    length = 0
    for window, (machine, score) in enumerate(zip(top_W, score_W, strict=True)):
        same = window > 0 and machine == top_W[window - 1]
        length = (length + 1 if same else 1) if score > threshold else 0
        if length >= least and int(machine) not in seen:
            seen.add(int(machine))
            found.append((int(machine), float(WINDOW_S + window * STRIDE_S)))
    return found

"""Statistics of a tensor from some of its values: sums, extremes and a histogram. Pure numpy.

Parts of a tensor (shards of ranks, micro-batches) combine exactly, because everything is a mean
over a known number of values or an extreme; ingest/sql/tensor_health.sql combines them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_VALUES = 8_192
"""Most sampled values of one tensor: the standard error of an rms over as many is below 1 %."""

LOWEST_EXPONENT, NUM_BINS = -40, 64
"""Histogram bins are octaves from 2^-40, below Adam's eps of 1e-8, to 2^24; both ends are open."""


def sample_stride(count: int, widths: Sequence[int]) -> int:
    """Stride that samples at most MAX_VALUES of `count` values; 1: all of them.

    `widths`: sizes of the last dims. The stride shares no factor with them, so that every feature
    is sampled: outliers of the residual stream are in few of them.
    """
    stride = max(1, math.ceil(count / MAX_VALUES))
    while stride > 1 and any(math.gcd(stride, width) > 1 for width in widths):
        stride += 1
    return stride


def statistics(values_N: npt.NDArray[np.float32], count: int, peak: float | None) -> dict[str, Any]:
    """Columns of the table tensor_stats, from count to log2_counts.

    `values_N`: N >= 1 of the tensor's `count` values, evenly spread; `peak`: the greatest size of
    all of them, NaN or infinite where one of them is, None where it is unknown.
    """
    finite = values_N[np.isfinite(values_N)].astype(np.float64)
    size = np.abs(finite)
    num_nonfinite = values_N.size - finite.size
    nonfinite = round(num_nonfinite * count / values_N.size)
    if peak is not None and not math.isfinite(peak):
        nonfinite, peak = max(nonfinite, 1), None
    columns: dict[str, Any] = {
        "count": count,
        "sampled": values_N.size,
        "zero_ratio": np.count_nonzero(values_N == 0) / values_N.size,
        "nonfinite": nonfinite,
        "log2_counts": log2_counts(size[size > 0]).tolist(),
    }
    if finite.size:
        mean, square = float(finite.mean()), float(np.square(finite).mean())
        columns |= {
            "mean": mean,
            "std": float(finite.std()),
            "rms": math.sqrt(square),
            "absmax": float(size.max()) if peak is None else peak,
        }
    return columns


def log2_counts(size_N: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """How many of the sizes, all above 0, lie in each octave: (NUM_BINS,)."""
    exponent_N = np.frexp(size_N)[1] - 1  # of the power of two at or below each
    bin_N = np.clip(exponent_N - LOWEST_EXPONENT, 0, NUM_BINS - 1)
    return np.bincount(bin_N, minlength=NUM_BINS)

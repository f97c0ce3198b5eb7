"""Statistics of sampled values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trace_hooks.sources.tensors.histograms import (
    LOWEST_EXPONENT,
    MAX_VALUES,
    NUM_BINS,
    sample_stride,
    statistics,
)


def test_statistics_of_all_values_are_numpys():
    values = np.random.default_rng(1).normal(0.5, 2.0, 1_000).astype(np.float32)
    values[:100] = 0
    computed = statistics(values, 1_000, float(np.abs(values).max()))
    exact = values.astype(np.float64)
    assert computed["mean"] == pytest.approx(exact.mean(), rel=1e-12)
    assert computed["std"] == pytest.approx(exact.std(), rel=1e-12)
    assert computed["rms"] == pytest.approx(math.sqrt((exact**2).mean()), rel=1e-12)
    assert computed["absmax"] == np.abs(values).max()
    assert (computed["zero_ratio"], computed["nonfinite"]) == (0.1, 0)
    assert (computed["count"], computed["sampled"], sum(computed["log2_counts"])) == (
        1_000,
        1_000,
        900,
    )


def test_each_value_stands_in_its_octave_and_the_ends_are_open():
    values = np.array([1.0, 1.99, -2.0, 0.25, 2.0**-60, 2.0**60, 0.0], dtype=np.float32)
    counts = statistics(values, 7, None)["log2_counts"]
    found = {LOWEST_EXPONENT + bin: count for bin, count in enumerate(counts) if count}
    assert found == {0: 2, 1: 1, -2: 1, -40: 1, 23: 1}
    assert len(counts) == NUM_BINS


def test_what_is_not_finite_is_counted_and_left_out_of_the_rest():
    values = np.array([3.0, np.nan, -4.0, np.inf], dtype=np.float32)
    computed = statistics(values, 4, math.nan)
    assert (computed["nonfinite"], computed["absmax"], computed["mean"]) == (2, 4.0, -0.5)
    assert "mean" not in statistics(np.array([np.nan], dtype=np.float32), 1, math.nan)
    unseen = statistics(np.ones(8, dtype=np.float32), 80, math.inf)  # not among those sampled
    assert (unseen["nonfinite"], unseen["absmax"]) == (1, 1.0)


@pytest.mark.parametrize("width", [1, 768, 1_024, 5_120, 8_193])
def test_a_stride_takes_few_values_and_meets_every_feature(width: int):
    count = width * 1_000
    stride = sample_stride(count, [width])
    taken = np.arange(0, count, stride)
    assert taken.size <= MAX_VALUES
    if stride > 1:
        assert np.unique(taken % width).size == min(width, taken.size)


def test_a_small_tensor_is_looked_at_whole():
    assert sample_stride(MAX_VALUES, [64]) == 1
    assert sample_stride(0, []) == 1

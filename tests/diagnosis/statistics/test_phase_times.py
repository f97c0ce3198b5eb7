"""Medians of many steps at once."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.phase_times import middle, middles


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 8, 9])
def test_medians_of_columns_are_those_of_each(num_rows: int) -> None:
    random = np.random.default_rng(num_rows)
    values = random.lognormal(size=(num_rows, 400))
    values[random.random(values.shape) < 0.3] = np.nan
    values[random.random(values.shape) < 0.1] = np.inf
    each = np.array([middle(column) for column in values.T])
    np.testing.assert_array_equal(middles(values), each)

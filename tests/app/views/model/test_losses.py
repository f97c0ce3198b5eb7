"""Losses over the steps, pooled to columns."""

from __future__ import annotations

import numpy as np

from app.views.model.losses import losses


def test_columns_keep_mean_and_extremes() -> None:
    step_S = np.array([0, 1, 2, 3, 10, 11], np.int64)
    arrays, _ = losses((step_S, np.array([1.0, 3.0, np.nan, 5.0, 2.0, 4.0])), None, 3)
    assert arrays["first"].tolist() == [0, 10]  # nothing in the middle
    assert arrays["last"].tolist() == [3, 11]
    assert arrays["mean"].tolist() == [3, 3]
    assert arrays["least"].tolist() == [1, 2]
    assert arrays["greatest"].tolist() == [5, 4]
    assert arrays["bad"].tolist() == [1, 0]

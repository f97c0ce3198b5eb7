"""Against values from tables of the two intervals."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy.intervals import clopper_pearson, of_f1, wilson


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (10, 10, 0.6915, 1.0),
        (5, 100, 0.0164, 0.1128),
    ],
)
def test_clopper_pearson(part: int, whole: int, low: float, high: float) -> None:
    assert clopper_pearson(part, whole) == pytest.approx((low, high), abs=1e-4)


def test_no_hit_in_millions_of_steps() -> None:
    low, high = clopper_pearson(0, 2_000_000)
    assert low == 0
    assert high == pytest.approx(3.689 / 2_000_000, rel=1e-3)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0.0, 0.2775), (8, 10, 0.4902, 0.9433), (97, 100, 0.9155, 0.9897)],
)
def test_wilson(part: int, whole: int, low: float, high: float) -> None:
    assert wilson(part, whole) == pytest.approx((low, high), abs=1e-4)


def test_f1_is_covered_as_often_as_its_interval_says() -> None:
    """Drawn: a fault is found in 8 of 10 cases, and one finding in ten is false."""
    random = np.random.default_rng(5)
    true = 2 * 0.8 / (2 * 0.8 + 0.2 + 0.1)
    held = 0
    for found, missed, false in random.multinomial(60, np.array([8, 2, 1]) / 11, 2000).tolist():
        low, high = of_f1(found, missed + false)
        held += low <= true <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


def test_nothing_is_known_of_nothing() -> None:
    assert clopper_pearson(0, 0) == wilson(0, 0) == (0.0, 1.0)

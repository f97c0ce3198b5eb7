"""Series of a model's statistics, and when one crosses a level for good."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.statistics.sampled_series import (
    CONSECUTIVE,
    Series,
    Stretch,
    lasting,
    named,
    noise_of,
    rises_above,
    series_of,
    severity_of,
    too_few,
)


def series(*values: list[float]) -> Series:
    steps = np.arange(0, 10 * len(values[0]), 10)
    return Series(steps, tuple((row,) for row in range(len(values))), np.array(values))


def test_a_question_becomes_one_series_for_each_place() -> None:
    rows = [
        {"step": 0, "layer": 1, "name": "b", "rms": 1.0},
        {"step": 10, "layer": 1, "name": "b", "rms": float("inf")},
        {"step": 10, "layer": 0, "name": "a", "rms": 3.0},
    ]
    made = series_of(pa.Table.from_pylist(rows), ("layer", "name"), "rms")
    values = dict(zip(made.keys, made.value_KN.tolist(), strict=True))
    assert made.step_N.tolist() == [0, 10]
    assert values[1, "b"][0] == 1.0
    assert np.isnan(values[1, "b"][1])  # not finite
    assert np.isnan(values[0, "a"][0])
    assert values[0, "a"][1] == 3.0


def test_values_of_another_series_are_those_of_the_same_places_and_steps() -> None:
    one = series([1.0, 2.0], [3.0, 4.0])
    other = Series(np.array([10, 99]), ((1,), (7,)), np.zeros((2, 2)))
    np.testing.assert_array_equal(one.like(other), [[4.0, np.nan], [np.nan, np.nan]])


def test_the_extent_goes_on_while_too_few_samples_have_followed() -> None:
    long = series([0.0] * 20)
    assert long.extent([Stretch(2, 5), Stretch(8, 19)]) == (20, 190, True)
    assert long.extent([Stretch(2, 5)]) == (20, 50, False)


def test_a_stretch_leaves_unknown_samples_out() -> None:
    is_off = np.array([1, 1, 0, 1, 1, 0, 1], np.bool_)
    known = np.array([1, 1, 0, 1, 1, 1, 1], np.bool_)
    assert CONSECUTIVE == 4
    assert lasting(is_off, known) == [Stretch(0, 4)]


def test_a_value_that_hovers_around_a_level_does_not_rise_above_it() -> None:
    random = np.random.default_rng(3)
    low, high = random.normal(1, 0.05, 20), random.normal(5, 0.05, 20)
    assert rises_above(np.concatenate([low, high]), 3.0) == Stretch(20, 39)
    assert rises_above(np.concatenate([low, high]), 9.0) is None
    assert rises_above(random.normal(3, 1.0, 40), 3.0) is None
    assert rises_above(high, 3.0) is None  # it was never below


def test_a_trend_is_no_noise() -> None:
    assert noise_of(np.arange(50.0)) == pytest.approx(0)
    assert noise_of(np.random.default_rng(1).normal(0, 1, 2000)) == pytest.approx(6, rel=0.1)


def test_words() -> None:
    assert named(["a", "b", "a"]) == "a, b"
    assert named("abcdef") == "a, b, c, d and 2 more"
    assert [severity_of(*flags) for flags in ((False, True), (True, True), (True, False))] == [
        "past",
        "urgent",
        "warning",
    ]
    verdict = too_few("x", series([1.0, 2.0]), "attention")
    assert verdict is not None
    assert verdict.not_enough[0].missing == (
        "2 steps with attention statistics are too few: 4 are needed."
    )
    assert too_few("x", series([1.0] * 4), "attention") is None

"""When it is true that steps take longer."""

from __future__ import annotations

import numpy as np
import pytest

from sample_traces.generate.labelled.step_truth import StepTruth

USUAL = np.full(100, 10.0)


def steps_with(first: int, last: int, factor: float) -> StepTruth:
    with_S = USUAL.copy()
    with_S[first : last + 1] *= factor
    return StepTruth(with_S, USUAL)


@pytest.mark.parametrize(
    ("num_steps", "factor", "is_longer"),
    [(20, 1.05, True), (19, 1.05, False), (40, 1.04, False), (3, 1.25, True), (2, 1.5, False)],
)
def test_a_little_for_long_or_much_for_short(
    num_steps: int, factor: float, is_longer: bool
) -> None:
    truth = steps_with(40, 40 + num_steps - 1, factor)
    assert truth.is_longer(40, 40 + num_steps - 1) is is_longer


def test_most_of_the_steps_named_must_be_longer() -> None:
    truth = steps_with(60, 99, 1.3)
    assert truth.is_longer(60, 99)
    assert truth.is_longer(50, 99)
    assert not truth.is_longer(10, 99)
    assert not truth.is_longer(0, 59)


def test_steps_longer_than_before_are_longer_though_no_fault_is_planted() -> None:
    longer_S = np.where(np.arange(100) < 50, 10.0, 12.0)
    assert StepTruth(longer_S, longer_S).is_longer(50, 99)
    assert not StepTruth(longer_S, longer_S).is_longer(0, 49)


def test_steps_count_from_where_the_job_resumed() -> None:
    truth = StepTruth(steps_with(60, 99, 1.3).with_S, USUAL, first=8)
    assert truth.is_longer(68, 107)
    assert not truth.is_longer(200, 300)


@pytest.mark.parametrize(
    ("steps", "are_longer"),
    [([10, 30, 50], True), ([10, 31, 51], False), ([10], False), ([10, 30, 50, 70], True)],
    ids=["each", "others", "one alone", "most"],
)
def test_steps_that_are_named_have_to_be_longer(steps: list[int], are_longer: bool) -> None:
    with_S = USUAL.copy()
    with_S[[10, 30, 50]] *= 1.1
    assert StepTruth(with_S, USUAL, first=0).are_longer(steps) == are_longer
    assert StepTruth(with_S, USUAL, first=8).are_longer([s + 8 for s in steps]) == are_longer


def test_steps_of_a_level_and_of_the_warm_up_are_not_longer_than_those_around() -> None:
    with_S = USUAL.copy()
    with_S[40:] *= 1.3
    with_S[:3] *= 3
    assert not StepTruth(with_S, USUAL).are_longer([0, 1, 2])
    assert not StepTruth(with_S, USUAL).are_longer([50, 60, 70])

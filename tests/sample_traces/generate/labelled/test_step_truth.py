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
    ("longer", "noise", "are_rare"),
    [(2.0, 0.0, True), (1.1, 0.01, True), (1.1, 0.05, False), (1.04, 0.0, False)],
    ids=["far", "beyond noise", "within noise", "hardly"],
)
def test_rare_steps_stand_apart(longer: float, noise: float, are_rare: bool) -> None:
    with_S = USUAL * np.exp(np.random.default_rng(3).normal(0.0, noise, USUAL.size))
    with_S[[10, 30, 50]] = longer * np.median(USUAL)
    truth = StepTruth(with_S, USUAL)
    assert truth.are_rare(10, 99) == are_rare
    assert not truth.are_rare(11, 99)  # begins with another step
    assert not truth.are_rare(50, 99)  # one alone


@pytest.mark.parametrize("num", [20, 40], ids=["a stretch", "a level"])
def test_longer_steps_in_a_row_are_not_rare(num: int) -> None:
    with_S = USUAL.copy()
    with_S[40 : 40 + num] *= 1.3
    assert not StepTruth(with_S, USUAL).are_rare(40, 99)


def test_the_warm_up_and_every_second_step_are_not_rare() -> None:
    with_S = USUAL.copy()
    with_S[:3] *= 3
    assert not StepTruth(with_S, USUAL).are_rare(0, 99)
    with_S[1::2] *= 1.5
    assert not StepTruth(with_S, USUAL).are_rare(11, 99)

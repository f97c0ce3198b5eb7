"""Since when steps are longer than before: for good, for a while, for a few; noise and patterns."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.step_levels import CLEAR, beyond_swings, rises, takes_longer

STEPS = 240


def steps(noise: float = 0.01, seed: int = 1, num: int = STEPS) -> Floats:
    return 100.0 * np.exp(np.random.default_rng(seed).normal(0.0, noise, num))


def alternating(noise: float = 0.01) -> Floats:
    """Every second step takes three times as long: means of steps are what can be compared."""
    return steps(noise) * np.where(np.arange(STEPS) % 2, 1.5, 0.5)


@pytest.mark.parametrize("made", [steps(), alternating(), steps(num=60)])
@pytest.mark.parametrize("longer", [1.1, 1.5])
def test_longer_from_a_step_to_the_last(made: Floats, longer: float) -> None:
    first = made.size // 2
    made = np.where(np.arange(made.size) >= first, longer, 1.0) * made
    (rise,) = rises(made)
    assert abs(rise.first - first) <= 2
    assert rise.last >= made.size - 3
    assert rise.excess == pytest.approx(longer - 1, abs=0.03)


@pytest.mark.parametrize(
    ("num", "first", "num_found"),
    [(40, 8, 1), (40, 7, 0), (33, 8, 1), (33, 7, 0), (103, 17, 1), (103, 16, 0)],
)
def test_a_rise_needs_steps_before_it(num: int, first: int, num_found: int) -> None:
    """Five after the warm-up, and a seventh of all."""
    made = steps(num=num, noise=0.002)
    made[first:] *= 1.5
    found = rises(made)
    assert [rise.first for rise in found] == [first] * num_found


@pytest.mark.parametrize(("longer", "num_found"), [(1.3, 1), (1.15, 0)])
def test_of_few_steps_before_it_only_a_great_rise_is_sure(longer: float, num_found: int) -> None:
    made = steps(num=40, noise=0.05, seed=4)
    made[8:] *= longer
    assert len(rises(made)) == num_found


def test_longer_for_a_while() -> None:
    made = steps()
    made[100:140] *= 1.2
    (rise,) = rises(made)
    assert abs(rise.first - 100) <= 2
    assert abs(rise.last - 139) <= 2


def test_what_is_far_longer_within_a_rise_is_told_where_it_costs_more() -> None:
    made = steps()
    made[60:200] *= 1.1
    made[120:140] *= 3
    (rise,) = rises(made)
    assert (rise.first, rise.last) == (120, 139)
    made[120:140] /= 2.2
    (rise,) = rises(made)
    assert abs(rise.first - 60) <= 2


def test_an_earlier_rise_is_not_what_is_usual() -> None:
    made = steps(noise=0.1)
    made[100:130] *= 4
    made[170:195] *= 1.25
    assert not takes_longer(made, 170, 194)
    long, short = rises(made)
    assert abs(long.first - 100) <= 1
    assert abs(short.first - 170) <= 3


def test_four_steps_that_are_far_longer() -> None:
    made = steps()
    made[100:104] *= 1.49
    (rise,) = rises(made)
    assert (rise.first, rise.last) == (100, 103)


@pytest.mark.parametrize("num", [4, 12, 18])
def test_a_few_long_steps_at_the_end_last_to_the_end(num: int) -> None:
    made = steps(num=200)
    made[-num:] *= 1.4
    (rise,) = rises(made)
    assert (rise.first, rise.last) == (200 - num, 199)


def test_a_slow_growth_is_one_rise() -> None:
    made = steps(noise=0.003)
    made[100:200] *= np.linspace(1.0, 1.6, 100)
    (rise,) = rises(made)
    assert 100 <= rise.first <= 140
    assert abs(rise.last - 199) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_far_longer_steps_are_two_rises_where_those_between_are_hardly_longer(seed: int) -> None:
    made = steps(num=150, seed=seed, noise=0.15)
    for first, times in ((45, 2.2), (65, 1.07), (85, 1.6)):
        made[first : first + 20] *= times
    both = rises(made)
    assert len(both) == 2
    for rise, first in zip(both, (45, 85), strict=True):
        assert abs(rise.first - first) <= 2
        assert abs(rise.last - first - 19) <= 2


@pytest.mark.parametrize("seed", range(10))
def test_what_steps_do_by_themselves_is_no_rise(seed: int) -> None:
    """One in four is half as long again, at random."""
    random = np.random.default_rng(seed)
    made = steps(seed=seed) * np.where(random.random(STEPS) < 0.25, 1.5, 1.0)
    assert [rise for rise in rises(made) if rise.last - rise.first >= 20] == []


@pytest.mark.parametrize(("longer", "is_clear"), [(1.02, False), (1.12, True)])
def test_by_how_much_steps_are_longer_than_they_swing(longer: float, is_clear: bool) -> None:
    made = steps(noise=0.05)
    made[120:160] *= longer
    made[200:] *= 1.5  # another fault, later
    assert (beyond_swings(made, 120, 159) >= CLEAR) == is_clear
    assert np.isnan(beyond_swings(made, 0, 20))


@pytest.mark.parametrize("every", [10, 50, 100])
def test_regular_long_steps_are_no_rise(every: int) -> None:
    made = steps()
    made[::every] *= 3.0
    assert rises(made) == []


@pytest.mark.parametrize("noise", [0.003, 0.03, 0.1])
@pytest.mark.parametrize("num", [4, 12, 40, 240])
def test_noise_and_warm_up_are_no_rise(noise: float, num: int) -> None:
    for seed in range(20):
        made = steps(noise, seed, num)
        made[:3] *= 4.0
        assert rises(made) == []


def test_steps_that_are_not_known_are_skipped() -> None:
    made = steps()
    made[120:] *= 1.3
    made[[5, 60, 121, 200]] = np.nan
    (rise,) = rises(made)
    assert abs(rise.first - 120) <= 2
    assert np.isfinite(rise.now_ms)


@pytest.mark.parametrize(("longer", "num", "is_it"), [(1.1, 30, True), (1.03, 30, False)])
def test_many_steps_are_longer_by_a_twentieth(longer: float, num: int, is_it: bool) -> None:
    made = steps()
    made[100 : 100 + num] *= longer
    assert takes_longer(made, 100, 99 + num) is is_it


@pytest.mark.parametrize(("noise", "is_it"), [(0.01, True), (0.15, False)])
def test_few_steps_are_longer_by_more_than_as_many_vary_by(noise: float, is_it: bool) -> None:
    made = steps(noise)
    made[100:108] *= 1.15
    assert takes_longer(made, 100, 107) is is_it


def test_a_few_long_steps_make_no_longer_stretch() -> None:
    made = steps()
    made[100:130:10] *= 4.0
    assert not takes_longer(made, 100, 129)


def test_without_steps_before_nothing_is_longer() -> None:
    assert not takes_longer(2.0 * steps(), 0, 50)

"""Since when steps take longer: at once, slowly, or now and then; and not where they do not."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from diagnosis.mfu import cusum
from diagnosis.mfu.change_point import LEAST, decline, smallest_shown
from diagnosis.mfu.comparison import compare
from diagnosis.mfu.text import sentence
from tests.diagnosis.mfu.step_times_made import times_of

STEPS = 300


def steady(seed: int, spread: float = 0.01, num_steps: int = STEPS) -> np.ndarray:
    return 100 * np.exp(spread * np.random.default_rng(seed).standard_normal(num_steps))


def dependent(seed: int, keeps: float, num: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(num)
    for at in range(1, num):
        noise[at] += keeps * noise[at - 1]
    return noise


@pytest.mark.parametrize("first", [80, 150, 220])
def test_a_small_loss_is_found_where_it_begins(first):
    step_ms = steady(1)
    step_ms[first:] *= 1.0266
    found = decline(step_ms)
    assert abs(found.first - first) <= 10
    assert not found.slowly
    assert (found.before[1], found.after) == (found.first - 1, (found.first, STEPS - 1))


def test_a_slow_climb_is_told_from_a_step():
    step_ms = steady(2)
    step_ms[100:] *= 1 + 0.05 * np.arange(STEPS - 100) / (STEPS - 100)
    found = decline(step_ms)
    assert found.slowly
    assert 50 <= found.first <= 150
    assert found.after[0] > found.first + 50


def test_more_long_steps_are_found_though_the_usual_ones_are_as_before():
    step_ms = steady(3)
    step_ms[150::10] *= 1.5
    found = decline(step_ms)
    assert found.long_steps
    assert 130 <= found.first <= 170


def test_a_part_that_grows_is_found_where_the_noise_of_the_step_hides_it():
    step_ms, saved_ms = steady(10, 0.2), np.zeros(STEPS)
    saved_ms[150::10] = 30.0
    assert decline(step_ms + saved_ms) is None
    found = decline(step_ms + saved_ms, {"checkpoint": saved_ms})
    assert found.part == "checkpoint"
    assert abs(found.first - 150) <= 10


def test_a_large_rise_ends_where_steps_are_as_before_again():
    step_ms = steady(4)
    step_ms[100:180] *= 1.3
    found = decline(step_ms)
    assert abs(found.first - 100) <= 3
    assert abs(found.after[1] - 179) <= 3


def test_faster_steps_are_no_decline():
    step_ms = steady(5)
    step_ms[150:] *= 0.9
    assert decline(step_ms) is None


def test_rare_very_long_steps_of_a_steady_job_are_no_decline():
    for seed in range(40):
        step_ms = steady(seed)
        step_ms[np.random.default_rng(seed).random(STEPS) < 0.02] *= 2.5
        assert decline(step_ms) is None


def test_every_second_step_twice_as_long_hides_no_small_loss():
    step_ms = steady(6, 0.005)
    step_ms[::2] *= 2
    assert decline(step_ms) is None
    step_ms[150:] *= 1.03
    assert abs(decline(step_ms).first - 150) <= 10


def test_a_change_below_what_jobs_differ_by_is_not_told():
    step_ms = steady(7, 0.001)
    step_ms[150:] *= 1 + LEAST / 2
    assert decline(step_ms) is None


def test_few_steps_say_nothing():
    assert decline(steady(8, num_steps=40)) is None
    assert math.isnan(smallest_shown(steady(8, num_steps=40)))


def test_noisier_runs_show_greater_losses_only():
    quiet, loud = (smallest_shown(steady(9, spread)) for spread in (0.01, 0.1))
    assert LEAST <= quiet < 0.02 < loud < 0.2


@pytest.mark.parametrize("keeps", [0.0, 0.5])
def test_series_without_a_rise_seldom_have_one_even_where_neighbours_depend(keeps):
    found = sum(cusum.rise(dependent(seed, keeps, 100)) is not None for seed in range(200))
    assert found <= 4  # 2 % of them: chance allows for 0.1 %, and correlations are estimated


def test_half_of_the_rises_of_the_stated_height_are_found():
    found = 0
    for seed in range(100):
        series = dependent(seed, 0.0, 60)
        height = cusum.half_found(dependent(1000 + seed, 0.0, 60))
        series[30:] += height
        found += cusum.rise(series) is not None
    assert 30 <= found <= 70


def test_the_sentence_of_long_steps_says_how_many_and_what_they_cost():
    after_ms = np.zeros(100)
    after_ms[::10] = 50.0
    before = times_of(100, compute=steady(1, num_steps=100))
    after = times_of(100, first_step=100, compute=steady(2, num_steps=100), checkpoint=after_ms)
    said = sentence(compare(before, after), "since step 100", of_long_steps=True)
    assert said.startswith("Unusually long steps (10 % of them, after 0 %) cost 5.")
    assert said.endswith("above all checkpoints since step 100.")


def test_the_sentence_of_a_part_says_what_is_lost_to_it():
    saved_ms = np.zeros(100)
    saved_ms[::10] = 50.0
    before = times_of(100, compute=steady(1, 0.2, 100))
    after = times_of(100, first_step=100, compute=steady(2, 0.2, 100), checkpoint=saved_ms)
    said = sentence(compare(before, after, part="checkpoint"), "since step 100")
    assert re.fullmatch(
        r"Up to 5\.0 % of a step more \(.*\) are lost to checkpoints since step 100: "
        r"5\.0 ms per step after 0\.0 ms on the rank that has most, for which the others wait\.",
        said,
    )

"""The interval between saves: against known values, and against runs that fail at random."""

from __future__ import annotations

import math

import numpy as np
import pytest

from diagnosis.goodput.checkpoint_interval import best_interval, effective_share, mtbf_interval

HOUR_S = 3600.0


@pytest.mark.parametrize(("save_s", "mtbf_s"), [(60, 24 * HOUR_S), (5, HOUR_S), (300, 4 * HOUR_S)])
def test_the_best_interval_leaves_more_than_its_neighbours(save_s, mtbf_s):
    best = best_interval(save_s, mtbf_s)
    share = effective_share(best, save_s, 600, mtbf_s)
    assert share > effective_share(0.97 * best, save_s, 600, mtbf_s)
    assert share > effective_share(1.03 * best, save_s, 600, mtbf_s)


def test_it_is_youngs_where_saves_are_cheap():
    assert best_interval(1.0, 1e6) == pytest.approx(math.sqrt(2e6), rel=0.001)


def test_it_is_at_most_the_mean_time_between_interruptions():
    assert 0 < best_interval(1e6, 100.0) <= 100.0


@pytest.mark.parametrize("interval_s", [300.0, 900.0, 3000.0])
def test_the_share_is_that_of_jobs_that_fail_at_random(interval_s):
    save_s, restart_s, mtbf_s = 30.0, 120.0, HOUR_S
    measured = simulated(interval_s, save_s, restart_s, mtbf_s)
    assert effective_share(interval_s, save_s, restart_s, mtbf_s) == pytest.approx(
        measured, rel=0.02
    )


def simulated(interval_s, save_s, restart_s, mtbf_s, num_saves=40_000):
    """Training share of a job whose failures come at random, also while it saves and restarts."""
    chance = np.random.default_rng(3)
    wall_s = 0.0
    for _ in range(num_saves):
        needed_s = interval_s + save_s
        while (until_s := chance.exponential(mtbf_s)) < needed_s:
            wall_s += until_s
            needed_s = restart_s + interval_s + save_s
        wall_s += needed_s
    return num_saves * interval_s / wall_s


def test_intervals_of_the_mean_time_are_exact():
    # Garwood's limits of a Poisson mean of which 3 were seen: 0.6187 to 8.7673
    low, high = mtbf_interval(3, 1.0)
    assert (1 / low, 1 / high) == (pytest.approx(8.7673, rel=1e-4), pytest.approx(0.6187, rel=1e-3))


def test_without_interruptions_there_is_a_lower_limit_alone():
    assert mtbf_interval(0, 30.0) == (pytest.approx(30.0 / 2.9957, rel=1e-4), None)


def test_nothing_is_left_where_failures_come_faster_than_saves():
    assert effective_share(1e6, 1.0, 1.0, 1.0) == 0.0

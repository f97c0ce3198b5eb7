"""Culprits exceed what ranks are late by themselves; swings of busy hosts do not."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.swings import LEAST_BEYOND, no_swings

RANKS, STEPS = 8, 240
STAGE_R = np.zeros(RANKS, np.int64)


def swinging(by: float, memory: int, seed: int = 2) -> Floats:
    """Ranks that are late for some steps and early for others, in shares of a step."""
    drawn = np.random.default_rng(seed).normal(0.0, by, (RANKS, STEPS + memory))
    means = np.cumsum(drawn, axis=1)
    swings: Floats = (means[:, memory:] - means[:, :-memory]) / np.sqrt(memory)
    return swings


@pytest.mark.parametrize("seed", range(5))
def test_the_latest_swing_of_all_is_no_culprit(seed: int) -> None:
    excess_RS = swinging(0.1, 20, seed)
    row, first = np.unravel_index(excess_RS[:, :-20].argmax(), (RANKS, STEPS - 20))
    assert no_swings(excess_RS, STAGE_R, [(int(row), int(first), int(first) + 19)]) == {}


def test_as_much_among_quiet_ranks_is_one() -> None:
    excess_RS = swinging(0.01, 20)
    excess_RS[3, 100:120] += 0.2
    (beyond,) = no_swings(excess_RS, STAGE_R, [(3, 100, 119)]).values()
    assert beyond > LEAST_BEYOND


def test_several_culprits_do_not_hide_each_other() -> None:
    excess_RS = swinging(0.01, 5)
    spans = [(row, 60, STEPS - 1) for row in range(4)]
    for row, first, last in spans:
        excess_RS[row, first : last + 1] += 0.3
    excess_RS[4:, 60:] -= 0.3  # as against the median of all
    assert sorted(no_swings(excess_RS, STAGE_R, spans)) == [0, 1, 2, 3]


def test_a_swing_beside_a_culprit_is_none() -> None:
    excess_RS = swinging(0.05, 20)
    excess_RS[5, 30:200] += 0.9
    first = int(excess_RS[2, :-20].argmax())
    assert list(no_swings(excess_RS, STAGE_R, [(2, first, first + 19), (5, 30, 199)])) == [1]


def test_where_nobody_swings_any_excess_is_beyond() -> None:
    excess_RS = np.zeros((RANKS, STEPS))
    excess_RS[1, 50:60] = 0.1
    assert no_swings(excess_RS, STAGE_R, [(1, 50, 59)]) == {0: float("inf")}
    assert no_swings(excess_RS, STAGE_R, []) == {}


def test_a_rare_swing_of_another_rank_by_half_as_much_clears_the_accused() -> None:
    excess_RS = swinging(0.001, 20)
    excess_RS[3, 100:120] += 0.2
    excess_RS[6, 20:40] += 0.12
    assert no_swings(excess_RS, STAGE_R, [(3, 100, 119)]) == {}
    excess_RS[6, 20:40] -= 0.06
    assert list(no_swings(excess_RS, STAGE_R, [(3, 100, 119)])) == [0]


def test_few_far_longer_steps_of_another_rank_clear_nobody() -> None:
    excess_RS = swinging(0.001, 20)
    excess_RS[3, 100:120] += 0.2
    excess_RS[6, [20, 27, 33]] += 5.0
    assert list(no_swings(excess_RS, STAGE_R, [(3, 100, 119)])) == [0]
    assert no_swings(excess_RS, STAGE_R, [(3, 100, 105)]) == {}  # of six they are a good part

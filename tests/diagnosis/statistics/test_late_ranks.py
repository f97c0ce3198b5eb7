"""Who is at fault by itself: late in nearly every step, evenly, and later than all others."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.late_ranks import (
    Late,
    culprits,
    evenness,
    is_longer,
    last_shares,
    lasting_or_calm,
    meet,
)
from diagnosis.statistics.rank_tables import Floats

RANKS, STEPS = 8, 40
STAGE_R = np.zeros(RANKS, np.int64)
LEAST_R = np.full(RANKS, 0.03)


def lateness(**late: Floats | float) -> Floats:
    excess_RS = np.random.default_rng(1).normal(0.0, 0.005, (RANKS, STEPS))
    for name, share in late.items():
        excess_RS[int(name[1:])] += share
    return excess_RS


def whole(excess_RS: Floats, *rows: int) -> list[Late]:
    return [
        Late(
            row,
            Episode(0, STEPS - 1, 0.2),
            0.2,
            float((excess_RS[row] > 0.03).mean()),
            evenness(excess_RS[row]),
        )
        for row in rows
    ]


def named(excess_RS: Floats, *rows: int) -> list[int]:
    return [late.row for late in culprits(excess_RS, STAGE_R, whole(excess_RS, *rows), LEAST_R)]


EVERY_SECOND = 0.4 * (np.arange(STEPS) % 2)


def test_one_rank_late_in_every_step_is_named() -> None:
    assert named(lateness(r3=0.2), 3) == [3]


def test_a_rank_late_in_every_second_step_is_not() -> None:
    assert named(lateness(r3=EVERY_SECOND), 3) == []


def test_a_rank_that_another_one_follows_in_every_second_step_is_not() -> None:
    """Steady, but as often as not others come later."""
    assert named(lateness(r3=0.1, r5=EVERY_SECOND), 3, 5) == []


def test_several_late_ranks_are_named_together() -> None:
    assert named(lateness(r3=0.2, r5=0.21, r6=0.1), 3, 5, 6) == [3, 5, 6]


def test_what_grows_over_its_steps_is_even_enough() -> None:
    assert named(lateness(r3=np.linspace(0.05, 0.5, STEPS)), 3) == [3]


def test_who_is_out_counts_as_another_rank_again() -> None:
    excess_RS = lateness(r3=0.2, r5=0.3 + EVERY_SECOND)
    columns = np.arange(STEPS)
    assert set(last_shares(excess_RS, STAGE_R, [(3, columns)])) == set()
    assert set(last_shares(excess_RS, STAGE_R, [(3, columns), (5, columns)])) == {0, 1}


def test_evenness() -> None:
    assert evenness(np.full(20, 0.2)) == 1.0
    assert evenness(np.full(5, np.nan)) == 0.0
    assert evenness(np.full(5, -0.1)) == 0.0


def test_meeting_episodes() -> None:
    assert meet(Episode(0, 4, 1.0), Episode(4, 8, 1.0))
    assert not meet(Episode(0, 3, 1.0), Episode(4, 8, 1.0))


def test_steps_are_longer_than_the_last_ones_where_something_else_made_earlier_ones_long() -> None:
    window_S = np.concatenate([np.full(20, 200.0), np.full(38, 350.0), np.full(20, 205.0)])
    window_S = np.concatenate([window_S, np.full(30, 310.0)])
    late = Episode(78, 107, 0.35)
    assert is_longer(window_S, late, 0.35)
    assert not is_longer(np.full(108, 205.0), late, 0.35)


@pytest.mark.parametrize(("num", "kept"), [(25, 1), (8, 0)])
@pytest.mark.parametrize("calm", [True, False])
def test_few_steps_are_kept_only_where_the_others_are_calm(num: int, kept: int, calm: bool) -> None:
    excess_NS = np.zeros((4, 60))
    excess_NS[0, 10 : 10 + num] = 0.5
    if not calm:
        excess_NS[1:, ::7] = 0.4
    episode = Episode(10, 9 + num, 0.5)
    found = lasting_or_calm(excess_NS, np.full(4, 0.03), [(0, episode)])
    assert found == [(0, episode)] * (1 if calm else kept)

"""Who is slow to start: only who is far from the others, and only where the others waited."""

from __future__ import annotations

import pytest

from diagnosis.goodput.slow_start import many_groups, slow_phases
from diagnosis.goodput.startup import RankStart, Stretch
from tests.startup_runs import phases


def start(rank, rows, step_s=1.0, usual_step_s=0.5):
    at_s, stretches = 0.0, []
    for phase, seconds, what in rows:
        stretches.append(Stretch(phase, what, at_s, seconds))
        at_s += seconds
    return RankStart(
        rank, "h", 0.0, tuple(stretches), 0, at_s, at_s + step_s, usual_step_s, at_s, 3, 9, 0, None
    )  # fmt: skip


def job(slow, waits=6.0, num_ranks=4):
    """Rank 1 starts as `slow`, the others wait for it."""
    return [start(rank, slow if rank == 1 else phases(waits=waits)) for rank in range(num_ranks)]


@pytest.mark.parametrize(
    "phase", ["before", "hooks", "restore", "data", "model", "compile", "other"]
)
def test_the_slow_rank_and_its_phase_are_named(phase):
    (slow,) = slow_phases(job(phases(phase, 6, what="where")))
    assert (slow.phase, slow.ranks, slow.what) == (phase, (1,), "where")
    assert slow.cost_s == pytest.approx(6.0)


@pytest.mark.parametrize("phase", ["rendezvous", "groups", "communication"])
def test_who_waits_is_not_named(phase):
    assert slow_phases(job(phases(phase, 6, what="barrier at x"), waits=0)) == []


def test_the_jobs_own_code_inside_a_wait_is_named():
    (slow,) = slow_phases(job(phases("groups", 6, what="slow (a.py) inside new_group (b.py)")))
    assert (slow.phase, slow.ranks) == ("groups", (1,))


def test_a_rank_nobody_waited_for_is_not_named():
    assert slow_phases(job(phases("restore", 6), waits=0)) == []


def test_a_small_difference_is_not_named():
    assert slow_phases(job(phases("restore", 1.5), waits=1.5)) == []


@pytest.mark.parametrize(("usual_step_s", "num"), [(None, 1), (1.4, 1), (1.6, 0)])
def test_what_costs_less_than_four_steps_is_not_named(usual_step_s, num):
    waits = [start(n, phases(waits=6), usual_step_s=usual_step_s) for n in (0, 2, 3)]
    slow = start(1, phases("data", 6), usual_step_s=usual_step_s)
    assert len(slow_phases([*waits, slow])) == num


@pytest.mark.parametrize(("waits", "num"), [(2.5, 0), (6.0, 1)])
def test_before_a_step_is_known_the_others_have_waited_for_five_seconds(waits, num):
    others = [start(n, phases(waits=waits), usual_step_s=None) for n in (0, 2, 3)]
    assert len(slow_phases([*others, start(1, phases("data", 6), usual_step_s=None)])) == num


def test_where_half_of_the_ranks_are_slow_nobody_is_named():
    ranks = [start(n, phases("restore", 6) if n < 2 else phases(waits=6)) for n in range(4)]
    assert slow_phases(ranks) == []


def test_ranks_that_differ_anyway_hide_a_small_difference():
    lengths = [0, 2, 4, 6, 8, 10, 12, 15]
    ranks = [start(n, phases("restore", length, waits=9)) for n, length in enumerate(lengths)]
    assert slow_phases(ranks) == []


def test_of_two_ranks_the_slower_is_named():
    (slow,) = slow_phases(job(phases("imports", 6), num_ranks=2))
    assert slow.ranks == (1,)


def test_one_rank_is_compared_with_nobody():
    assert slow_phases([start(0, phases("imports", 60))]) == []


def test_many_groups_take_long_on_all_ranks():
    ranks = [start(n, phases("groups", 20)) for n in range(4)]
    found = many_groups(ranks)
    assert (found.seconds, found.num_groups) == (20.5, 9)
    assert many_groups([*ranks[:3], start(3, phases(waits=20))]) is None

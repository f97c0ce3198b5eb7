"""Which phases hide waiting, on steps built by hand: who comes late, and where the others wait."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.hidden_waits import hidden_shares, is_clear
from diagnosis.statistics.rank_tables import Floats

RANKS, STEPS, STEP_MS = 16, 60, 100.0
STAGE_R = np.zeros(RANKS, np.int64)


def shares(late_in: str, waits_in: str, late_ranks: int = 1) -> dict[str, float] | None:
    """Some ranks, others in each step, come 40 ms late in a phase; the others wait in another."""
    random = np.random.default_rng(3)
    phases: dict[str, Floats] = {
        name: random.normal(30.0, 0.3, (RANKS, STEPS)) for name in ("compute", "data", "rest")
    }
    for step in range(STEPS):
        late = random.choice(RANKS, late_ranks, replace=False)
        others = np.setdiff1d(np.arange(RANKS), late)
        phases[late_in][late, step] += 40.0
        if waits_in in phases:
            phases[waits_in][others, step] += 40.0
    return hidden_shares(phases, np.full(STEPS, STEP_MS), STAGE_R)


@pytest.mark.parametrize("waits_in", ["compute", "data", "rest"])
@pytest.mark.parametrize("late_in", ["compute", "data", "rest"])
@pytest.mark.parametrize("late_ranks", [1, 4])
def test_the_phase_in_which_the_others_wait(late_in: str, waits_in: str, late_ranks: int) -> None:
    if late_in == waits_in:
        return
    found = shares(late_in, waits_in, late_ranks)
    assert found is not None
    assert found[waits_in] > 0.9
    assert all(share < 0.1 for name, share in found.items() if name != waits_in)


@pytest.mark.parametrize("late_in", ["compute", "data", "rest"])
def test_nothing_is_hidden_where_communication_takes_the_waiting(late_in: str) -> None:
    found = shares(late_in, "comm")
    assert found is not None
    assert max(found.values()) < 0.1


@pytest.mark.parametrize("late_in", ["compute", "data"])
@pytest.mark.parametrize("comm_noise", [0.0, 2.0])
def test_the_phase_of_the_next_step_in_which_the_others_wait(
    late_in: str, comm_noise: float
) -> None:
    """Ranks swing by themselves; each waits at the begin of a step for who was last in the one
    before.
    """
    random = np.random.default_rng(3)
    phases: dict[str, Floats] = {
        name: random.normal(30.0, 0.3, (RANKS, STEPS)) for name in ("compute", "data", "rest")
    }
    phases[late_in] += random.exponential(6.0, (RANKS, STEPS))
    ready_RS = np.sum(list(phases.values()), axis=0)
    phases["data"][:, 1:] += (ready_RS.max(axis=0) - ready_RS)[:, :-1]
    phases["rest"] += random.normal(0.0, comm_noise, (RANKS, STEPS))
    found = hidden_shares(phases, np.full(STEPS, STEP_MS), STAGE_R)
    assert found is not None
    assert found["data"] > 0.5
    assert max(found["compute"], found["rest"]) < 0.25


@pytest.mark.parametrize("every", [2, 3, 4, 5, 6, 10])
@pytest.mark.parametrize("begins", [0, STEPS // 2])
def test_a_rank_that_is_late_every_so_many_steps_hides_no_waiting(every: int, begins: int) -> None:
    """The others wait in communication."""
    random = np.random.default_rng(3)
    phases = {
        name: random.normal(30.0, 0.3, (RANKS, STEPS)) for name in ("compute", "data", "rest")
    }
    phases["compute"][5, begins::every] += 40.0
    found = hidden_shares(phases, np.full(STEPS, STEP_MS), STAGE_R)
    assert found is not None
    assert max(found.values()) < 0.1


def test_half_of_the_ranks_late_is_unclear() -> None:
    found = shares("data", "compute", RANKS // 2)
    assert found is not None
    assert not any(share >= 0.5 for share in found.values())


def test_equal_ranks_show_nothing() -> None:
    equal = {"compute": np.full((RANKS, STEPS), 70.0), "rest": np.full((RANKS, STEPS), 5.0)}
    assert hidden_shares(equal, np.full(STEPS, STEP_MS), STAGE_R) is None


def test_shares_near_a_half_are_not_clear() -> None:
    assert [is_clear(share) for share in (0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0)] == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]

"""Since when, until when: stretches of excess beyond a threshold."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.episodes import episodes, greatest_sum, may_be_slow, sporadic

NOISE = 0.02
"""3 MAD of the noise below, about 2 sigma"""


def excess(num_steps: int, *stretches: tuple[int, int, float], seed: int = 3) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, 0.01, num_steps)
    for first, last, amount in stretches:
        values[first : last + 1] += amount
    return values


@pytest.mark.parametrize("amount", [0.5, 0.15, 0.06])
@pytest.mark.parametrize("first", [0, 1, 8, 30])
def test_the_first_step_is_found(amount: float, first: int) -> None:
    found_episodes = episodes(excess(60, (first, 59, amount)), NOISE)
    assert len(found_episodes) == 1
    assert abs(found_episodes[0].first - first) <= 1
    assert found_episodes[0].last >= 58
    assert found_episodes[0].excess == pytest.approx(amount, abs=0.01)


def test_two_stretches_are_two_episodes() -> None:
    found_episodes = episodes(excess(100, (10, 29, 0.3), (60, 79, 0.2)), NOISE)
    assert [(e.first, e.last) for e in found_episodes] == [(10, 29), (60, 79)]


@pytest.mark.parametrize(("first", "last"), [(25, 39), (35, 59), (50, 59)])
def test_what_becomes_far_higher_is_an_episode_by_itself(first: int, last: int) -> None:
    values = excess(60, (0, 59, 0.045), (first, last, 0.3))
    found_episodes = episodes(values, NOISE)
    highest = max(found_episodes, key=lambda episode: episode.excess)
    assert (highest.first, highest.last) == (first, last)
    assert highest.excess == pytest.approx(0.345, abs=0.01)
    assert min(episode.excess for episode in found_episodes) == pytest.approx(0.045, abs=0.01)


def test_what_grows_evenly_is_not_cut_where_it_is_high() -> None:
    values = excess(100)
    values[20:80] += np.linspace(0.0, 0.6, 60)
    longest = max(episodes(values, NOISE), key=lambda episode: episode.last - episode.first)
    assert longest.first < 45
    assert longest.last == 79


def test_spikes_are_no_episode() -> None:
    values = excess(100)
    values[::10] += 2.0
    assert episodes(values, NOISE) == []


def test_a_quick_step_and_an_unknown_one_do_not_end_it() -> None:
    values = excess(40, (10, 39, 0.3))
    values[20], values[25] = 0.0, np.nan
    assert [(e.first, e.last) for e in episodes(values, NOISE)] == [(10, 39)]


def test_noise_alone_gives_none_in_a_thousand_ranks() -> None:
    values_RS = np.random.default_rng(5).normal(0, 0.01, (1000, 200))
    assert not may_be_slow(values_RS, np.full(1000, NOISE)).any()


def test_the_greatest_sum() -> None:
    assert greatest_sum(np.array([-1.0, 2, -1, 3, -5, 2])) == (1, 3, 4.0)
    assert greatest_sum(np.array([-1.0, -2.0])) == (0, -1, 0.0)


def test_as_many_votes_against_it_as_make_one_divide_it() -> None:
    """Eleven slow steps, seven without, eleven slow ones: the sum alone would join them."""
    found_episodes = episodes(excess(40, (8, 18, 0.1), (26, 36, 0.1)), 0.03)
    assert [(one.first, one.last) for one in found_episodes] == [(8, 18), (26, 36)]


@pytest.mark.parametrize("seed", range(10))
def test_noise_does_not_divide_a_weak_one(seed: int) -> None:
    weak = np.random.default_rng(seed).normal(0.06, 0.03, 80)
    assert len(episodes(weak, 0.03)) == 1


def peers_hit(hits: dict[int, list[int]], num_steps: int = 40) -> dict[int, list[int]]:
    """Reported steps of each of eight peers, of which some are hit in these."""
    values = np.stack([excess(num_steps, seed=row) for row in range(8)])
    for row, steps in hits.items():
        values[row, steps] += 0.4
    by_row = sporadic(values, np.full(8, NOISE))
    return {row: [one.first for one in own] for row, own in by_row.items()}


@pytest.mark.parametrize("every", [2, 3, 5, 7])
def test_single_steps_that_come_again_are_reported_of_their_peer(every: int) -> None:
    hit = list(range(3, 40, every))
    assert peers_hit({5: hit}) == {5: hit}


def test_single_steps_that_hit_one_peer_after_the_other_or_rarely_are_no_episode() -> None:
    random = np.random.default_rng(8)
    for _ in range(50):
        moving = random.integers(8, size=80)
        hits = {row: np.flatnonzero(moving == row).tolist() for row in range(8)}
        assert peers_hit(hits, num_steps=80) == {}
    assert peers_hit({5: [3, 13, 23, 33]}) == {}


def test_thousands_of_episodes_are_all_found() -> None:
    one = np.concatenate([np.full(8, 0.5), np.zeros(8)])
    found_episodes = episodes(np.tile(one, 2000), 0.06)
    expected = [(16 * number, 16 * number + 7) for number in range(2000)]
    assert [(each.first, each.last) for each in found_episodes] == expected


def added_up(values: np.ndarray) -> tuple[int, int, float]:
    """As greatest_sum, one value after the other."""
    best, running, start = (0, -1, 0.0), 0.0, 0
    for index, value in enumerate(values.tolist()):
        if running <= 0:
            running, start = 0.0, index
        running += value
        if running > best[2]:
            best = (start, index, running)
    return best


@pytest.mark.parametrize("seed", range(50))
def test_the_greatest_sum_is_that_of_a_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    for size in range(60):
        values = random.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size)  # sums without rounding
        assert greatest_sum(values) == added_up(values)

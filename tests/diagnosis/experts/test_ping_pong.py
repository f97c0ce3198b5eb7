"""The formulas of ping-pong against a simulation that knows none of them."""

from __future__ import annotations

import random

import pytest

from diagnosis.experts.ping_pong import PingPong
from tests.diagnosis.experts.ping_pong_simulation import simulated

KNOWN = [
    (1.0, 1.0, 0.4, 3, 97.8),
    (1.0, 1.0, 0.4, 2, 90.6),
    (1.0, 1.0, 0.8, 4, 130.6),
    (1.0, 1.0, 0.8, 3, 117.2),
    (1.0, 0.7, 0.4, 3, 97.5),
    (1.0, 0.7, 0.4, 2, 81.0),
    (0.6, 1.0, 0.1, 2, 64.8),
]
"""Attention, experts, transfer, micro-batches; time of 32 layers by the simulation."""


@pytest.mark.parametrize(("attention", "experts", "transfer", "micro_batches", "total"), KNOWN)
def test_known_cases(attention, experts, transfer, micro_batches, total) -> None:
    pass_ = PingPong(attention, experts, transfer, micro_batches, 32)
    end, attention_busy, experts_busy = simulated(attention, experts, transfer, micro_batches, 32)
    assert end == pytest.approx(total)
    assert pass_.total == pytest.approx(total)
    assert pass_.attention_idle == pytest.approx(1 - attention_busy / end)
    assert pass_.experts_idle == pytest.approx(1 - experts_busy / end)


def test_random_cases() -> None:
    chance = random.Random(11)
    for _ in range(3_000):
        times = [chance.uniform(0.05, 2.0) for _ in range(3)]
        case = (*times, chance.randint(1, 9), chance.randint(1, 40))
        assert PingPong(*case).total == pytest.approx(simulated(*case)[0]), case


def test_the_least_number_of_micro_batches() -> None:
    chance = random.Random(12)
    for _ in range(300):
        times = [chance.uniform(0.05, 2.0) for _ in range(3)]
        least = PingPong(*times, 1, 1).least_micro_batches
        slowest = max(times)
        for micro_batches in range(1, least + 2):
            longer = (
                simulated(*times, micro_batches, 11)[0] - simulated(*times, micro_batches, 10)[0]
            )
            keeps_busy = longer == pytest.approx(micro_batches * slowest)
            assert keeps_busy == (micro_batches >= least), (times, micro_batches)
            assert PingPong(*times, micro_batches, 4).are_enough == keeps_busy


def test_the_condition_of_the_paper_is_enough_and_for_equal_sides_exact() -> None:
    chance = random.Random(13)
    for _ in range(1_000):
        longer, shorter = 1.0, chance.uniform(0.2, 1.0)
        transfer, micro_batches = chance.uniform(0.0, 0.99), chance.randint(1, 6)
        is_met = micro_batches * longer >= 2 * (longer + transfer)
        assert not is_met or PingPong(longer, shorter, transfer, micro_batches, 8).are_enough
        assert PingPong(longer, longer, transfer, micro_batches, 8).are_enough == is_met


def test_conditions() -> None:
    good = PingPong(1.0, 0.95, 0.4, 3, 32)
    assert (good.are_equal, good.is_transfer_hidden, good.are_enough) == (True, True, True)
    bad = PingPong(1.0, 0.7, 1.2, 2, 32)
    assert (bad.are_equal, bad.is_transfer_hidden, bad.are_enough) == (False, False, False)
    assert bad.with_micro_batches(bad.least_micro_batches).are_enough


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0, 1.0, 0.1, 2, 4), "attention takes 0.0; give a time above 0"),
        ((1.0, float("nan"), 0.1, 2, 4), "experts takes nan"),
        ((1.0, 1.0, -0.1, 2, 4), "a transfer takes -0.1"),
        ((1.0, 1.0, 0.1, 0, 4), "0 micro-batches and 4 layers; give at least 1"),
    ],
)
def test_impossible_times_are_refused(values, message) -> None:
    with pytest.raises(ValueError, match=message):
        PingPong(*values)

"""Micro-batches in turn on ranks that do both sides, against longest paths through their work."""

from __future__ import annotations

import random
from functools import cache

import pytest

from diagnosis.experts.ping_pong import PingPong
from diagnosis.experts.same_ranks import MOST_MICRO_BATCHES, SameRanks


def longest_path(
    attention: float, experts: float, transfer: float, micro_batches: int, layers: int
) -> float:
    """When the last combine ends: each piece of work begins when its predecessors have ended."""
    takes = {"attention": attention, "dispatch": transfer, "experts": experts, "combine": transfer}

    @cache
    def end(kind: str, layer: int, number: int) -> float:
        before = {"dispatch": "attention", "experts": "dispatch", "combine": "experts"}
        needs = [end(before[kind], layer, number)] if kind in before else []
        if kind == "attention" and layer:
            needs.append(end("combine", layer - 1, number))
        if number:  # the same device, or direction of the network, does one after the other
            needs.append(end(kind, layer, number - 1))
        elif kind == "experts":
            needs.append(end("attention", layer, micro_batches - 1))
        elif kind == "attention" and layer:
            needs.append(end("experts", layer - 1, micro_batches - 1))
        return max(needs, default=0.0) + takes[kind]

    return end("combine", layers - 1, micro_batches - 1)


def test_random_cases() -> None:
    chance = random.Random(21)
    for _ in range(1_000):
        times = [chance.uniform(0.05, 2.0) for _ in range(3)]
        case = (*times, chance.randint(1, 5), chance.randint(1, 12))
        measured = SameRanks(*case)
        assert measured.total == pytest.approx(longest_path(*case)), case
        busy = case[3] * case[4] * (case[0] + case[1])
        assert measured.attention_idle == pytest.approx(1 - busy / measured.total, abs=1e-9)
        least = case[4] * max(case[3] * (case[0] + case[1]), measured.round_trip)
        assert measured.total >= least - 1e-9


def test_one_micro_batch_hides_nothing() -> None:
    alone = SameRanks(1.0, 2.0, 0.5, 1, 10)
    assert (
        alone.total == pytest.approx(10 * alone.round_trip) == PingPong(1.0, 2.0, 0.5, 1, 10).total
    )
    assert (alone.least_micro_batches, alone.are_enough) == (2, False)


def test_the_least_number_of_micro_batches() -> None:
    assert SameRanks(1.0, 1.0, 0.9, 2, 10).are_enough
    assert SameRanks(1.0, 1.0, 1.2, 2, 10).least_micro_batches == 3
    assert SameRanks(1.0, 1.0, 2.2, 2, 10).least_micro_batches == MOST_MICRO_BATCHES + 1
    assert isinstance(SameRanks(1.0, 1.0, 1.2, 2, 10).with_micro_batches(3), SameRanks)


@pytest.mark.parametrize(("transfer", "is_hidden"), [(1.5, True), (2.0, False), (3.0, False)])
def test_transfers_are_hidden_by_attention_and_experts_together(
    transfer: float, is_hidden: bool
) -> None:
    assert SameRanks(1.0, 1.0, transfer, 8, 4).is_transfer_hidden == is_hidden
    assert not PingPong(1.0, 1.0, transfer, 8, 4).is_transfer_hidden

"""Sequences packed into rows, as drawn and dealt evenly."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from sample_traces.jobs.model import mixed_values
from sample_traces.jobs.packing import (
    FILL,
    Lengths,
    Packing,
    by_microbatch,
    dealt,
    global_batch,
    longest_to,
    padded,
)

WIDTH, ROWS = 2_000, 12


@pytest.mark.parametrize(
    "text", ["lognormal,200,1.0", "uniform,10,900", "two,50,1900,0.1", "pareto,40,0.9"]
)
def test_no_row_is_empty_or_holds_too_much_and_dealing_keeps_every_sequence(text: str) -> None:
    packed = global_batch(Lengths.parse(text), 3, 7, ROWS, WIDTH)
    assert len(packed) == ROWS
    assert all(0 < sum(row) <= WIDTH for row in packed)
    assert packed == global_batch(Lengths.parse(text), 3, 7, ROWS, WIDTH)
    again = dealt(packed, WIDTH, 3)
    assert all(sum(row) <= WIDTH for row in again)
    assert sorted(chain.from_iterable(again)) == sorted(chain.from_iterable(packed))
    assert uneven(again) <= uneven(packed)


def uneven(rows: list[list[int]]) -> int:
    """Largest sum of squares of a row."""
    return max(map(square, rows))


def test_replicas_get_about_the_same() -> None:
    packed = [[1_000], [900], [800], [700], [600], [500]]
    assert dealt(packed, WIDTH, 2) == [[1_000], [700], [600], [900], [800], [500]]


def test_each_replica_has_its_own_part_of_the_batch() -> None:
    lengths = Lengths.parse("uniform,10,900")
    parts = [Packing(lengths, "drawn", 1, (number, 3), 4, WIDTH).of_step(2) for number in range(3)]
    assert [row for part in parts for row in part] == global_batch(lengths, 1, 2, 12, WIDTH)


def test_alternating_steps_hold_the_same_sequences() -> None:
    packing = Packing(Lengths.parse("lognormal,200,1.0"), "alternating", 1, (0, 1), 6, WIDTH)
    drawn, balanced = packing.of_step(4), packing.of_step(5)
    assert drawn != balanced
    assert sorted(chain.from_iterable(drawn)) == sorted(chain.from_iterable(balanced))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gauss,1,2", "unknown lengths 'gauss'; known: lognormal, uniform, two, pareto"),
        ("uniform,1", "take 2 numbers, not 1"),
        ("uniform,1,x", "a part that is no number"),
    ],
)
def test_lengths_that_cannot_be_used_get_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Lengths.parse(text)


def test_one_replica_gets_the_longest_rows() -> None:
    lengths, to = Lengths.parse("uniform,10,900"), longest_to("1@4")
    assert to == (1, 4)
    before, after = (
        [Packing(lengths, "drawn", 1, (n, 3), 4, WIDTH, to).of_step(step) for n in range(3)]
        for step in (3, 4)
    )
    drawn = global_batch(lengths, 1, 4, 12, WIDTH)
    assert list(chain.from_iterable(before)) == global_batch(lengths, 1, 3, 12, WIDTH)
    assert sorted(chain.from_iterable(after)) == sorted(drawn)
    assert min(map(square, after[1])) >= max(map(square, after[0] + after[2]))


def square(row: list[int]) -> int:
    return sum(length**2 for length in row)


@pytest.mark.parametrize("text", ["1", "a@2", "1@", "1@-2"])
def test_who_gets_them_must_be_said(text: str) -> None:
    with pytest.raises(ValueError, match="write REPLICA@STEP"):
        longest_to(text)


def test_micro_batches_and_what_the_model_is_given() -> None:
    rows = [[3, 2], [4], [1, 1, 1], [5]]
    assert by_microbatch(rows, 2) == [[3, 2, 4], [1, 1, 1, 5]]
    assert padded(rows[:3]).tolist() == [[3, 2, 0], [4, 0, 0], [1, 1, 1]]
    assert 0 < FILL < 1


def test_sequences_of_a_row_see_only_themselves() -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 2, 8, 4) for _ in range(3))
    mixed = mixed_values(query, key, value, [[3, 4], [8]])
    alone = mixed_values(*(x[:1, :, 3:7] for x in (query, key, value)), None)
    torch.testing.assert_close(mixed[:1, :, 3:7], alone)
    torch.testing.assert_close(mixed[1:], mixed_values(query[1:], key[1:], value[1:], None))
    assert mixed[0, :, 7].equal(value[0, :, 7])  # behind the last sequence

"""How sentences write times, steps and ranks."""

from __future__ import annotations

import pytest

from diagnosis.statistics.units import (
    in_ms,
    named_ranks,
    steps_text,
    waits_of_each,
    when_text,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.25, "0.2 ms"), (9.96, "10.0 ms"), (10, "10 ms"), (1234.6, "1,235 ms"), (12_345, "12.3 s")],
)
def test_a_time_has_as_many_digits_as_are_read(ms: float, text: str) -> None:
    assert in_ms(ms) == text


def test_waits_are_those_of_each_rank() -> None:
    assert waits_of_each(127, 760.0) == "127 ranks wait 6.0 ms each per step on average"
    assert waits_of_each(1, 50.0) == "1 rank waits 50 ms per step"
    assert waits_of_each(1, 50.0, is_past=True) == "1 rank waited 50 ms per step"


def test_one_step_is_no_range() -> None:
    assert steps_text(6, 9) == "steps 6 to 9"
    assert steps_text(6, 6) == "step 6"


@pytest.mark.parametrize(
    ("first", "last", "ongoing", "text"),
    [
        (6, 9, True, "since step 6"),
        (6, 9, False, "from step 6 to 9, not since then"),
        (6, 6, True, "in step 6"),
        (6, 6, False, "in step 6, not since then"),
    ],
)
def test_when_something_was_wrong(first: int, last: int, ongoing: bool, text: str) -> None:
    assert when_text(first, last, ongoing) == text


def test_ranks_are_named_in_their_order() -> None:
    assert named_ranks([5]) == "rank 5"
    assert named_ranks([7, 5]) == "ranks 7, 5"
    assert named_ranks([]) == ""

"""Counts of samples by source."""

from __future__ import annotations

import pytest

from trace_hooks.sources.mixtures.draws import MOST_SOURCES, Draws


def test_samples_are_taken_once() -> None:
    draws = Draws()
    draws.add("web")
    draws.add("web", 3)
    draws.add("code")
    assert draws.take() == {"web": 4, "code": 1}
    assert draws.take() == {}


def test_a_sample_inside_of_another_does_not_count() -> None:
    draws = Draws()
    begun = draws.begin("web")
    assert draws.begin("code") is None
    draws.add("code")
    draws.end(begun)
    draws.add("books")
    assert draws.take() == {"web": 1, "books": 1}


def test_a_plan_is_a_share_of_each_source() -> None:
    draws = Draws()
    draws.plan(["web", "code"], [3, 1])
    assert draws.planned == {"web": 0.75, "code": 0.25}
    assert draws.take() == {"web": 0, "code": 0}


@pytest.mark.parametrize("weights", [None, [1.0], [0, 0], [-1, 3], [float("nan"), 1]])
def test_a_plan_that_is_none_is_left_out(weights: list[float] | None) -> None:
    draws = Draws()
    draws.plan(["web", "code"], weights)
    assert draws.planned == {}


def test_of_many_names_the_first_are_told_apart() -> None:
    draws = Draws()
    for number in range(MOST_SOURCES + 5):
        draws.add(str(number))
    assert len(draws.take()) == MOST_SOURCES

"""Requests for the spans of some steps, as a rank answers them."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.agent.span_requests import MOST_RANGES, SpanRequests
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState
from trace_hooks.recording.step_sampling import StepSampling


def answer(sampling: StepSampling, args: Any) -> dict[str, Any]:
    """What a rank in step 41 answers."""
    live, rank_state = Live(), RankState()
    rank_state.step = 41
    SpanRequests(rank_state, sampling).join(live)
    command = {"type": "command", "id": "c1", "name": "record_spans", "args": args}
    found = live.commands.answer(command)
    assert found is not None
    return found


def test_steps_that_are_asked_for_are_whole() -> None:
    sampling = StepSampling(10)
    ack = answer(sampling, {"steps": 3, "from": 44})
    assert (ack["ok"], ack["text"]) == (
        True,
        "publishes the spans of steps 44 to 46, it is in step 41",
    )
    assert [step for step in range(41, 61) if sampling.is_whole(step)] == [44, 45, 46, 50, 60]


def test_without_a_first_step_the_next_one_is_meant() -> None:
    sampling = StepSampling(0)
    assert answer(sampling, {"steps": 2})["ok"]
    assert [step for step in range(60) if sampling.is_whole(step)] == [42, 43]


def test_a_rank_that_publishes_all_spans_says_so() -> None:
    ack = answer(StepSampling(1), {"steps": 2})
    assert (ack["ok"], ack["text"]) == (True, "publishes the spans of every step already")


def test_more_requests_than_can_wait_are_refused_and_none_is_forgotten() -> None:
    sampling = StepSampling(0)
    for number in range(MOST_RANGES):
        assert answer(sampling, {"steps": 1, "from": 50 + 2 * number})["ok"]
    ack = answer(sampling, {"steps": 1, "from": 200})
    assert not ack["ok"]
    assert ack["text"].startswith("16 requests wait for their steps already; ask again once")
    assert all(sampling.is_whole(50 + 2 * number) for number in range(MOST_RANGES))
    sampling.passed(50)
    assert answer(sampling, {"steps": 1, "from": 200})["ok"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"steps": 2, "from": 41}, "this rank is in step 41 already; ask for a later one"),
        ({"steps": 0}, "record_spans: steps is 0; give 1 to 1000"),
        ({"steps": 1001}, "record_spans: steps is 1001; give 1 to 1000"),
        ({"ranks": 1}, "record_spans has no 'ranks'; give steps and, if you like, from"),
        (3, 'record_spans takes an object such as {"steps": 3}'),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(args: Any, why: str) -> None:
    sampling = StepSampling(0)
    ack = answer(sampling, args)
    assert (ack["ok"], ack["text"]) == (False, why)
    assert not any(sampling.is_whole(step) for step in range(60))

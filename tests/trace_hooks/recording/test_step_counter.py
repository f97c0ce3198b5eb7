"""Steps: their numbers, and the numbers that a job logs about them."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def borders() -> list[str]:
    return []


@pytest.fixture
def steps(recorder: Recorder, borders: list[str]) -> StepCounter:
    return StepCounter(recorder, lambda: borders.append("begin"), lambda: borders.append("end"))


def rows(recorder: Recorder) -> list[dict[str, Any]]:
    return [row for name, row in recorder.rows if name == "steps"]


def test_steps_count_on_from_the_given_number(
    recorder: Recorder, steps: StepCounter, borders: list[str]
) -> None:
    for number in (None, 7, None):
        steps.begin(number)
        assert recorder.rank_state.phase == "step"
    steps.end()
    assert recorder.rank_state.phase == "data"
    steps.publish_last()
    assert [row["step"] for row in rows(recorder)] == [0, 7, 8]
    assert borders == ["begin", "end"] * 3


def test_a_forgotten_step_leaves_no_row_and_its_number(
    recorder: Recorder, steps: StepCounter
) -> None:
    steps.begin()
    steps.forget()
    assert not steps.running
    steps.begin()
    steps.end()
    steps.publish_last()
    assert [row["step"] for row in rows(recorder)] == [0]


def test_numbers_go_to_the_running_step_else_to_the_last_one(
    recorder: Recorder, steps: StepCounter
) -> None:
    steps.log({"lr": 0.1})  # before the first step
    steps.begin()
    steps.log({"loss": 3.0, "tokens": None})
    steps.end()
    steps.log({"grad_norm": 2.0})
    steps.publish(everything=True)
    (row,) = rows(recorder)
    assert (row["lr"], row["loss"], row["grad_norm"]) == (0.1, 3.0, 2.0)
    assert "tokens" not in row
    with pytest.raises(ValueError, match="the last step's row is written"):
        steps.log({"loss": 1.0})


def test_a_row_waits_a_moment_for_late_numbers(recorder: Recorder, steps: StepCounter) -> None:
    steps.begin()
    steps.end()
    steps.publish()
    assert rows(recorder) == []
    steps.begin()
    assert len(rows(recorder)) == 1


def test_unknown_numbers_are_refused_and_the_others_kept(
    recorder: Recorder, steps: StepCounter
) -> None:
    steps.begin()
    with pytest.raises(ValueError, match=r"log takes loss, grad_norm.*not accuracy; lr: 'low'"):
        steps.log({"accuracy": 1.0, "loss": 2.0, "lr": "low"})
    steps.end()
    steps.publish(everything=True)
    assert [row["loss"] for row in rows(recorder)] == [2.0]


def test_tokens_are_those_of_the_batches_unless_the_job_logs_them(
    recorder: Recorder, steps: StepCounter
) -> None:
    for logged in (None, 70):
        steps.begin()
        steps.count_tokens(32)
        steps.count_tokens(32)
        steps.end()
        steps.log({"tokens": logged})
    steps.publish(everything=True)
    assert [row["tokens"] for row in rows(recorder)] == [64.0, 70.0]

"""Steps: their numbers, and the numbers that a job logs about them."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.recording import step_counter
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


def test_a_resumed_job_renumbers_its_steps(recorder: Recorder, steps: StepCounter) -> None:
    steps.renumber(41)  # no step is running: the next one
    steps.begin()
    steps.renumber(43)  # the running one
    assert recorder.rank_state.step == 43
    steps.end()
    steps.begin()
    steps.end()
    steps.publish_last()
    assert [row["step"] for row in rows(recorder)] == [43, 44]


def test_no_number_is_given_twice(recorder: Recorder, steps: StepCounter) -> None:
    for number in (5, 6, 1, 2):  # a second training begins at 1
        steps.renumber(number)
        steps.begin()
        steps.renumber(number)
        steps.end()
    steps.publish_last()
    assert [row["step"] for row in rows(recorder)] == [5, 6, 7, 8]


def test_logging_nothing_needs_no_step(recorder: Recorder, steps: StepCounter) -> None:
    steps.begin()
    steps.end()
    steps.publish_last()
    steps.log({})
    steps.log({"loss": None})
    steps.suggest({})


def test_steps_that_the_user_numbers_keep_their_numbers(
    recorder: Recorder, steps: StepCounter
) -> None:
    steps.explicit = True
    steps.begin(7)
    steps.renumber(40)
    steps.end()
    steps.publish_last()
    assert [row["step"] for row in rows(recorder)] == [7]


def test_a_held_row_waits_for_what_is_logged_late(
    recorder: Recorder, steps: StepCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.begin(at_ns=0)
    steps.end(at_ns=1)
    steps.hold()
    monkeypatch.setattr(step_counter, "now", lambda: 10_000_000_000)  # the device is slow
    steps.publish()
    assert not rows(recorder)
    steps.log({"loss": 2.5})
    steps.publish()
    assert [row["loss"] for row in rows(recorder)] == [2.5]


def test_a_held_row_is_written_when_the_next_step_begins_or_a_minute_has_passed(
    recorder: Recorder, steps: StepCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.begin(at_ns=0)
    steps.end(at_ns=1)
    steps.hold()
    steps.begin(at_ns=2)
    assert len(rows(recorder)) == 1
    steps.end(at_ns=3)
    steps.hold()
    monkeypatch.setattr(step_counter, "now", lambda: 61_000_000_000)
    steps.publish()
    assert len(rows(recorder)) == 2


def test_a_number_that_no_column_holds_is_refused(recorder: Recorder, steps: StepCounter) -> None:
    steps.begin(3)
    for number in (10**30, -(10**30)):
        with pytest.raises(ValueError, match="at most 4611686018427387904, not one of 100 bits"):
            steps.begin(number)
    with pytest.raises(ValueError, match="at most"):
        steps.renumber(10**400)
    assert (recorder.rank_state.step, steps.running) == (3, True)

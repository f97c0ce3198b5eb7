"""Answers are computed once, kept while true and within a budget; who left harms nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from app.runs.cache import Answers, asked_by, size_of
from ingest.stopping import Interrupted, Stop


def first() -> int:
    return 1


def test_it_is_computed_once_per_version() -> None:
    answers, calls = Answers(), []
    version = 1

    def compute() -> int:
        calls.append(version)
        return version * 10

    assert [answers.get("key", lambda: version, compute) for _ in range(3)] == [10, 10, 10]
    version = 2
    assert answers.get("key", lambda: version, compute) == 20
    assert calls == [1, 2]
    assert len(answers) == 1  # the old version is not kept beside the new one


def test_many_at_once_wait_for_one() -> None:
    answers, calls = Answers(), []

    def compute() -> int:
        calls.append(1)
        time.sleep(0.1)
        return 7

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: answers.get("key", first, compute), range(8)))
    assert given == [7] * 8
    assert len(calls) == 1


def test_who_waits_while_the_version_goes_up_takes_what_came_meanwhile() -> None:
    answers, begun, calls = Answers(), threading.Event(), []
    version = 1

    def compute() -> int:
        nonlocal version
        calls.append(version)
        begun.set()
        time.sleep(0.1)
        version += 1  # news come faster than answers
        return calls[-1]

    with ThreadPoolExecutor(5) as pool:
        first_one = pool.submit(answers.get, "key", lambda: version, compute)
        begun.wait()
        waiting = [pool.submit(answers.get, "key", lambda: version, compute) for _ in range(4)]
        given = [first_one.result(), *(one.result() for one in waiting)]
    assert given == [1] * 5
    assert answers.get("key", lambda: version, compute) == 2  # who comes later wants the news
    assert calls == [1, 2]


def asking(answers: Answers, stop: Stop, compute: Callable[[], int]) -> int:
    asked_by.set(stop)
    value: int = answers.get("key", first, compute)
    return value


def test_an_interrupted_answer_is_not_kept_and_who_waits_computes_it() -> None:
    answers = Answers()
    begun, leave = threading.Event(), threading.Event()

    def interrupted() -> int:
        begun.set()
        leave.wait(5)
        raise Interrupted("the browser has left")

    with ThreadPoolExecutor(2) as pool:
        left = pool.submit(copy_context().run, asking, answers, Stop(), interrupted)
        begun.wait(5)
        stays = pool.submit(copy_context().run, asking, answers, Stop(), lambda: 7)
        time.sleep(0.1)
        assert not stays.done()
        leave.set()
        assert stays.result(5) == 7
        with pytest.raises(Interrupted):
            left.result(5)
    assert answers.get("key", first, lambda: 8) == 7


def test_who_has_left_does_not_wait_for_the_turn() -> None:
    answers = Answers()
    begun, end, stop = threading.Event(), threading.Event(), Stop()

    def slow() -> int:
        begun.set()
        end.wait(5)
        return 7

    with ThreadPoolExecutor(2) as pool:
        first_one = pool.submit(copy_context().run, asking, answers, Stop(), slow)
        begun.wait(5)
        waits = pool.submit(copy_context().run, asking, answers, stop, lambda: 8)
        stop()
        with pytest.raises(Interrupted, match="given up"):
            waits.result(2)
        end.set()
        assert first_one.result(5) == 7


def test_an_error_is_not_kept() -> None:
    answers = Answers()

    def failing() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        answers.get("key", first, failing)
    assert answers.get("key", first, lambda: 3) == 3


def test_the_least_used_go_first_when_the_budget_is_spent() -> None:
    answers = Answers(most_bytes=3500)
    for key in "abc":
        answers.get(key, first, lambda: np.zeros(1000, np.uint8))
    answers.get("a", first, lambda: pytest.fail("kept"))
    answers.get("d", first, lambda: np.zeros(1000, np.uint8))
    assert answers.num_bytes == 3000 + sum(map(size_of, "acd"))  # keys count, too
    answers.get("a", first, lambda: pytest.fail("used last"))
    assert answers.get("b", first, lambda: 5) == 5  # was dropped


def test_one_that_exceeds_the_budget_is_given_and_not_kept() -> None:
    answers = Answers(most_bytes=100)
    assert len(answers.get("key", first, lambda: b"x" * 1000)) == 1000
    assert (len(answers), answers.num_bytes) == (0, 0)


def test_answers_of_a_run_are_forgotten() -> None:
    answers = Answers()
    for key in (("run", 1), ("other", 1)):
        answers.get(key, first, lambda: b"x" * 100)
    answers.forget(lambda key: key[0] == "run")
    assert answers.get(("other", 1), first, lambda: b"") == b"x" * 100
    assert answers.get(("run", 1), first, lambda: b"") == b""


@dataclass(frozen=True)
class Picture:
    pixels: np.ndarray
    names: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "least"),
    [
        (b"x" * 1000, 1000),
        (np.zeros(1000), 8000),
        (pa.table({"a": [1.0] * 1000}), 8000),
        ({"a": [b"x" * 1000] * 2}, 2000),
        (Picture(np.zeros(1000), ("a" * 500,)), 8500),
    ],
)
def test_sizes(value: object, least: int) -> None:
    assert least <= size_of(value) < least + 1000


def test_what_is_larger_than_the_budget_is_answered_and_drives_nothing_out() -> None:
    answers = Answers(most_bytes=1000)
    answers.get("small", first, lambda: b"x" * 100)
    assert len(answers.get("large", first, lambda: b"x" * 5000)) == 5000
    assert (answers.kept("large", 1), answers.kept("small", 1)) == (None, b"x" * 100)
    assert answers.kept("small", 2) is None
    assert answers.num_bytes < 1000

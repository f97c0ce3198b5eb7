"""Answers are computed once, stored within a bound; a browser that leaves harms nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.runs.answer_store import AnswerStore, request_stop, size_of
from app.runs.policies import FRESH, STALE_WHILE_REVALIDATE, Policy, max_age, min_age
from ingest.stopping import Interrupted, Stop


def first() -> int:
    return 1


def value_of(
    answers: AnswerStore,
    key: Hashable,
    version: Callable[[], int],
    compute: Callable[[], Any],
    policy: Policy = FRESH,
) -> Any:
    return answers.get(key, version, compute, policy).value


def test_it_is_computed_once_per_version() -> None:
    answers, calls = AnswerStore(), []
    version = 1

    def compute() -> int:
        calls.append(version)
        return version * 10

    assert [value_of(answers, "key", lambda: version, compute) for _ in range(3)] == [10, 10, 10]
    version = 2
    assert value_of(answers, "key", lambda: version, compute) == 20
    assert calls == [1, 2]
    assert len(answers) == 1  # the new version has replaced the old one


def test_many_at_once_wait_for_one() -> None:
    answers, calls = AnswerStore(), []

    def compute() -> int:
        calls.append(1)
        time.sleep(0.1)
        return 7

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: value_of(answers, "key", first, compute), range(8)))
    assert given == [7] * 8
    assert len(calls) == 1


def test_those_who_waited_while_the_version_went_up_get_what_was_computed() -> None:
    answers, begun, calls = AnswerStore(), threading.Event(), []
    version = 1

    def compute() -> int:
        nonlocal version
        calls.append(version)
        begun.set()
        time.sleep(0.1)
        version += 1  # news come faster than answers
        return calls[-1]

    with ThreadPoolExecutor(5) as pool:
        first_one = pool.submit(value_of, answers, "key", lambda: version, compute)
        begun.wait()
        waiting = [
            pool.submit(value_of, answers, "key", lambda: version, compute) for _ in range(4)
        ]
        given = [first_one.result(), *(one.result() for one in waiting)]
    assert given == [1] * 5
    assert value_of(answers, "key", lambda: version, compute) == 2  # a later request gets the news
    assert calls == [1, 2]


def asking(answers: AnswerStore, stop: Stop, compute: Callable[[], int]) -> int:
    request_stop.set(stop)
    value: int = value_of(answers, "key", first, compute)
    return value


def test_an_interrupted_answer_is_not_stored_and_the_next_waiter_computes_it() -> None:
    answers = AnswerStore()
    begun, leave = threading.Event(), threading.Event()

    def interrupted() -> int:
        begun.set()
        leave.wait(60)
        raise Interrupted("the browser has left")

    with ThreadPoolExecutor(2) as pool:
        left = pool.submit(copy_context().run, asking, answers, Stop(), interrupted)
        begun.wait(60)
        stays = pool.submit(copy_context().run, asking, answers, Stop(), lambda: 7)
        time.sleep(0.1)
        assert not stays.done()
        leave.set()
        assert stays.result(60) == 7
        with pytest.raises(Interrupted):
            left.result(60)
    assert value_of(answers, "key", first, lambda: 8) == 7


def test_a_stopped_request_does_not_wait_for_its_turn() -> None:
    answers = AnswerStore()
    begun, end, stop = threading.Event(), threading.Event(), Stop()

    def slow() -> int:
        begun.set()
        end.wait(60)
        return 7

    with ThreadPoolExecutor(2) as pool:
        first_one = pool.submit(copy_context().run, asking, answers, Stop(), slow)
        begun.wait(60)
        waits = pool.submit(copy_context().run, asking, answers, stop, lambda: 8)
        stop()
        with pytest.raises(Interrupted, match="was stopped"):
            waits.result(30)
        end.set()
        assert first_one.result(60) == 7


def test_an_error_is_not_stored() -> None:
    answers = AnswerStore()

    def failing() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        value_of(answers, "key", first, failing)
    assert value_of(answers, "key", first, lambda: 3) == 3


def test_the_least_recently_used_are_evicted_beyond_the_bound() -> None:
    answers = AnswerStore(most_bytes=3500)
    for key in "abc":
        value_of(answers, key, first, lambda: np.zeros(1000, np.uint8))
    value_of(answers, "a", first, lambda: pytest.fail("stored"))
    value_of(answers, "d", first, lambda: np.zeros(1000, np.uint8))
    assert answers.num_bytes == 3000 + sum(map(size_of, "acd"))  # keys count, too
    value_of(answers, "a", first, lambda: pytest.fail("used last"))
    assert value_of(answers, "b", first, lambda: 5) == 5  # was dropped


def test_an_answer_beyond_the_bound_is_given_and_not_stored() -> None:
    answers = AnswerStore(most_bytes=100)
    assert len(value_of(answers, "key", first, lambda: b"x" * 1000)) == 1000
    assert (len(answers), answers.num_bytes) == (0, 0)


def test_chosen_answers_are_dropped() -> None:
    answers = AnswerStore()
    for key in (("run", 1), ("other", 1)):
        value_of(answers, key, first, lambda: b"x" * 100)
    answers.drop(lambda key: key[0] == "run")
    assert value_of(answers, ("other", 1), first, lambda: b"") == b"x" * 100
    assert value_of(answers, ("run", 1), first, lambda: b"") == b""


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
        ([b"x" * 1000] * 999, 1_040_000),
        (Picture(np.zeros(1000), ("a" * 500,)), 8500),
    ],
)
def test_sizes(value: object, least: int) -> None:
    assert least <= size_of(value) < least + 1000


def test_an_answer_beyond_the_bound_evicts_nothing() -> None:
    answers = AnswerStore(most_bytes=1000)
    value_of(answers, "small", first, lambda: b"x" * 100)
    assert len(value_of(answers, "large", first, lambda: b"x" * 5000)) == 5000
    assert answers.newest("large") is None
    assert answers.newest("small") is not None
    assert answers.num_bytes < 1000


def test_what_outlives_the_news_stays_when_older_versions_are_dropped() -> None:
    answers = AnswerStore()
    policies = (FRESH, max_age(9.0), min_age(9.0), STALE_WHILE_REVALIDATE)
    for policy in policies:
        answers.get(policy.name, first, lambda: 1, policy)
    answers.drop(lambda _key: True, outdated_by=1)
    assert len(answers) == 4, "none is about an older version"
    answers.drop(lambda _key: True, outdated_by=2)
    left = {policy.name for policy in policies if answers.newest(policy.name) is not None}
    assert left == {"min-age", "stale-while-revalidate"}

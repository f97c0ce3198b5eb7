"""Sources in threads of their own: answers, failures, and a driver that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import wait_until
from trace_hooks.telemetry.background import Background
from trace_hooks.telemetry.reading import Reading, Source, SourceError


class Driver(Source):
    """Answers when it may."""

    name = "nvidia"

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()

    def read(self) -> Iterator[Reading]:
        self.may_answer.wait()
        yield Reading("gpu:1", "gpu_power_watts", 5.0)


def answered(source: Background) -> list[Reading]:
    return wait_until(lambda: list(source.read()))


def test_what_was_read_comes_with_the_time_it_was_read() -> None:
    source = Background("nvidia", Driver)
    assert list(source.read()) == []  # the first call only asks
    before_ns = time.perf_counter_ns()
    (reading,) = answered(source)
    assert reading.value == 5.0
    assert before_ns - 10**9 < source.read_ns <= time.perf_counter_ns()
    source.stop()


def test_a_driver_that_hangs_is_given_up_and_comes_back() -> None:
    driver = Driver()
    source = Background("nvidia", lambda: driver, patience_s=0.5)
    answered(source)
    driver.may_answer.clear()
    with pytest.raises(SourceError, match="no answer for"):
        wait_until(lambda: source.read() and None)
    driver.may_answer.set()
    time.sleep(0.1)
    assert answered(source)
    source.stop()


def test_what_cannot_be_opened_is_tried_again() -> None:
    drivers: list[Driver] = []

    def make() -> Driver:
        if not drivers:
            drivers.append(Driver())
            raise SourceError("not installed")
        return drivers[0]

    source = Background("nvidia", make)
    with pytest.raises(SourceError, match="not installed"):
        wait_until(lambda: source.read() and None)
    assert answered(source)
    source.stop()


def test_a_library_of_another_version_is_named_and_tried_again() -> None:
    driver = Driver()
    answer = driver.read
    driver.read = lambda: driver.no_such_function()  # type: ignore[attr-defined, method-assign]
    source = Background("nvidia", lambda: driver, patience_s=0.5)
    with pytest.raises(SourceError, match="no attribute 'no_such_function'"):
        wait_until(lambda: source.read() and None)
    driver.read = answer  # type: ignore[method-assign]
    assert answered(source)
    source.stop()


def test_the_thread_ends_when_it_is_stopped() -> None:
    source = Background("quick to end", Driver)
    source.stop()
    names = lambda: [thread.name for thread in threading.enumerate()]  # noqa: E731
    wait_until(lambda: "telemetry quick to end" not in names())

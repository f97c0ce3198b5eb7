"""A call is made when its time is over, by one thread, and not where the block ended before."""

from __future__ import annotations

import threading

from ingest.query.query_timeouts import TimeLimits


def test_the_call_comes_when_the_time_is_over() -> None:
    limits, called = TimeLimits(), threading.Event()
    with limits.limit(0.01, called.set):
        assert called.wait(60)


def test_a_shorter_limit_does_not_wait_for_a_longer_one() -> None:
    limits, called = TimeLimits(), threading.Event()
    with limits.limit(60, called.clear), limits.limit(0.01, called.set):
        assert called.wait(60)


def test_what_ends_before_is_not_called() -> None:
    limits, called, late = TimeLimits(), threading.Event(), threading.Event()
    with limits.limit(0.05, called.set):
        pass
    with limits.limit(0.2, late.set), limits.limit(None, called.set):
        assert late.wait(60)
    assert not called.is_set()

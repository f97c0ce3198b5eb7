"""A wait that a call or a signal ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from trace_hooks.recording.wakeup import Wakeup


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    found = Wakeup()
    yield found
    found.close()


def test_a_call_before_the_wait_ends_it(wakeup: Wakeup) -> None:
    wakeup.wake()
    begun_s = time.monotonic()
    assert wakeup.wait(60.0) == b""
    assert time.monotonic() - begun_s < 30


def test_numbers_of_signals_are_returned(wakeup: Wakeup) -> None:
    os.write(wakeup.fileno(), bytes([15, 0, 10]))
    assert wakeup.wait(60.0) == bytes([15, 10])
    assert wakeup.wait(0.0) == b""


def test_signals_that_nobody_waits_for_do_not_end_it(wakeup: Wakeup) -> None:
    """A timer of the job: each would cost a turn of the drain thread."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.002):
            os.write(wakeup.fileno(), bytes([signal.SIGALRM]))

    ticking = threading.Thread(target=tick)
    ticking.start()
    begun_s = time.monotonic()
    signals = wakeup.wait(0.3)
    waited_s = time.monotonic() - begun_s
    over.set()
    ticking.join()
    assert waited_s >= 0.3
    assert set(signals) == {signal.SIGALRM}


def test_many_calls_do_not_block(wakeup: Wakeup) -> None:
    for _ in range(100_000):
        wakeup.wake()
    assert wakeup.wait(60.0) == b""


def test_closed_descriptors_leave_the_time(wakeup: Wakeup) -> None:
    wakeup.close()
    assert wakeup.wait(0.01) == b""

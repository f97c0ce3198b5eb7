"""How often something is repeated in a given time."""

from __future__ import annotations

import pytest

from trace_hooks.selftest import repetitions
from trace_hooks.selftest.repetitions import timed


class Clock:
    """Each repetition takes the next of these times, the last one again and again."""

    def __init__(self, *seconds: float) -> None:
        self.now, self.count = 0.0, 0
        self._seconds = seconds

    def once(self) -> None:
        self.now += self._seconds[min(self.count, len(self._seconds) - 1)]
        self.count += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(3.0, 0.01)
    monkeypatch.setattr(repetitions, "perf_counter", lambda: clock.now)
    return clock


def test_warm_ups_are_not_timed(clock: Clock) -> None:
    times = timed(clock.once, seconds=10.0, samples=20)
    assert (times.samples, clock.count) == (20, 5 + 20)
    assert times.shortest == pytest.approx(0.01)


def test_a_short_time_has_fewer_repetitions(clock: Clock) -> None:
    assert timed(clock.once, seconds=0.081, samples=20).samples == 6
    assert clock.count == 2 + 6


def test_three_at_least(clock: Clock) -> None:
    assert timed(clock.once, seconds=0.001, samples=20).samples == 3


def test_the_slowest_rank_of_a_group_decides(clock: Clock) -> None:
    times = timed(clock.once, 1.0, 20, longest_of=lambda own: 10 * own)
    assert times.samples == 10 - 2
    assert times.median == pytest.approx(0.01)

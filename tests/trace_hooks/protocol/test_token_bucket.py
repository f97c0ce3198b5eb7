"""A token bucket lets a burst pass, then its rate."""

from __future__ import annotations

import pytest

from trace_hooks.protocol.token_bucket import Rate


def test_a_rate_lets_a_burst_pass_and_then_its_rate() -> None:
    now_s = 0.0
    rate = Rate(10.0, 20.0, lambda: now_s)
    assert [rate.take() for _ in range(21)] == [True] * 20 + [False]
    now_s = 0.5
    assert [rate.take() for _ in range(6)] == [True] * 5 + [False]
    now_s = 100.0
    assert rate.wait_s(50.0) == 0.0  # more than a burst passes once it is full
    rate.spend(50.0)
    assert rate.wait_s(1.0) == pytest.approx(3.1)

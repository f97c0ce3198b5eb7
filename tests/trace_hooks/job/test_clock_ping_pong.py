"""The estimate of another host's clock from rounds of ping-pong."""

from __future__ import annotations

import pytest

from trace_hooks.job.clock_ping_pong import Estimate, Round, estimate, with_drift


def test_the_quickest_round_counts_and_half_of_it_is_the_error() -> None:
    slow = Round(sent_ns=0, answered_ns=9_000, received_ns=10_000)
    quick = Round(sent_ns=20_000, answered_ns=120_100, received_ns=20_200)
    assert estimate([slow, quick]) == Estimate(delta_ns=-100_000, err_ns=100, at_ns=20_100)


def test_without_rounds_there_is_no_estimate() -> None:
    with pytest.raises(ValueError, match="empty"):
        estimate([])


def test_drift_needs_time() -> None:
    first = Estimate(1_000, 50, at_ns=0)
    soon = Estimate(2_000, 50, at_ns=10_000_000_000)
    later = Estimate(61_000, 50, at_ns=60_000_000_000)
    assert with_drift(soon, first).drift_ppb == 0
    assert with_drift(later, first).drift_ppb == 1_000  # 60 us in a minute
    assert with_drift(later, None) == later

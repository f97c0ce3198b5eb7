"""Host times in Unix ns."""

from __future__ import annotations

import time

from trace_hooks.recording.clock import Anchor, HostClock, now


def test_the_anchor_ties_the_monotonic_clock_to_unix_time() -> None:
    anchor = Anchor()
    before, unix_ns, after = time.time_ns(), anchor.unix_ns(now()), time.time_ns()
    slack_ns = anchor.err_ns + 1_000_000_000  # the wall clock may be set meanwhile
    assert before - slack_ns <= unix_ns <= after + slack_ns
    assert anchor.err_ns >= 0


def test_an_anchor_of_another_process_is_taken_as_it_is() -> None:
    anchor = Anchor(offset_ns=500)
    assert (anchor.unix_ns(20), anchor.err_ns) == (520, 0)


def test_the_host_clock_stamps_nothing() -> None:
    clock = HostClock()
    clock.begin_step()
    assert (clock.mark(), clock.resolve(None), clock.track(3)) == (None, None, "")

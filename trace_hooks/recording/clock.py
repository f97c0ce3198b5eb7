"""One interface over the CPU's and the accelerator's clock.

Host times are a monotonic clock anchored once per process to Unix UTC. Work on an accelerator is
stamped by events, whose times are known later, so the drain thread resolves them. The CPU clock has
no events: its marks are final at once. Both go through the same calls.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

now = time.perf_counter_ns
"""Monotonic host ns; Anchor.unix_ns turns them into Unix ns."""

thread_cpu = time.thread_time_ns


class Anchor:
    """Ties the monotonic clock to Unix UTC, once per process (the tightest of a few readings).

    `offset_ns`, where given, is that of another process on this host.
    """

    def __init__(self, readings: int = 16, offset_ns: int | None = None) -> None:
        best = None if offset_ns is None else (0, offset_ns)
        if best is not None:
            readings = 0
        for _ in range(readings):
            before, wall, after = now(), time.time_ns(), now()
            if best is None or after - before < best[0]:
                best = (after - before, wall - (before + after) // 2)
        assert best is not None
        self.err_ns, self.offset_ns = best

    def unix_ns(self, monotonic_ns: int) -> int:
        """Unix ns of a reading of `now`."""
        return monotonic_ns + self.offset_ns


LOST = -1
"""In place of a time: the device failed, or had no event left; the time will never be known."""


class DeviceClock(Protocol):
    """What a source needs of an accelerator's clock; CPU jobs have HostClock."""

    def track(self, stream: int) -> str:
        """Track of the spans of a stream, such as 'cuda:0 stream 1'; empty on CPU."""

    def stream_of(self, event: Any) -> int:
        """Stream that a stamp was taken on, numbered from 0 in order of their first stamps."""

    def mark(self) -> Any | None:
        """Stamp the current stream; None where host times are used."""

    def begin_step(self) -> None:
        """Re-anchor to the host clock; never waits for the device."""

    def is_reached(self, event: Any) -> bool:
        """Whether `resolve` has an answer for a stamp. Drain thread only."""

    def resolve(self, event: Any, is_reached: bool = False) -> int | None:
        """Monotonic host ns of a stamp; None until the device reaches it, LOST where it never will.
        `is_reached`: a later stamp of its stream is reached.

        Drain thread only.
        """

    def release(self, event: Any) -> None:
        """Give a resolved stamp back to the pool."""


class HostClock:
    """DeviceClock of a CPU job."""

    def track(self, stream: int) -> str:
        """There are no spans of a device."""
        return ""

    def stream_of(self, event: Any) -> int:
        """There are no streams."""
        return 0

    def mark(self) -> None:
        """There is no device to stamp."""

    def begin_step(self) -> None:
        """Nothing to do: the host's clock does not drift against itself."""

    def is_reached(self, event: Any) -> bool:
        """Marks of this clock are final."""
        return True

    def resolve(self, event: Any, is_reached: bool = False) -> int | None:
        """Marks of this clock are final; there is nothing to resolve."""
        return None

    def release(self, event: Any) -> None:
        """Nothing was taken from a pool."""

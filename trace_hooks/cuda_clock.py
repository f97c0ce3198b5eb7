"""Device times from CUDA events, tied to the host's clock without ever waiting for the device.

elapsed_time is float32 milliseconds: 1 us exact at 10 s from its base, 250 us at an hour. So each
step records an anchor; anchor k is dated by its distance to anchor k - 1, every other stamp by its
distance to the anchor of its own step. The chain is held between two facts the host knows: the
device reached an event no earlier than the host recorded it, and no later than it was seen done.

The arithmetic is tested with simulated events (tests/trace_hooks/test_cuda_clock.py); it has not
been measured on a GPU yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from trace_hooks.clock import now


class Events(Protocol):
    """What the clock needs of a device: events in the current stream."""

    def record(self, event: Any | None) -> Any:
        """Record an event, a used one if given, and return it."""

    def reached(self, event: Any) -> bool:
        """Whether the device has got there; returns at once."""

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """Milliseconds from one reached event to another."""

    def capturing(self) -> bool:
        """Whether a graph is being captured: no event may be recorded then."""


class CudaEvents:
    """Events of torch.cuda on the current device."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def record(self, event: Any | None) -> Any:
        """Record in the current stream; about a microsecond of host time."""
        if event is None:
            event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def reached(self, event: Any) -> bool:
        """cudaEventQuery."""
        return bool(event.query())

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """cudaEventElapsedTime: float32."""
        return float(first.elapsed_time(second))

    def capturing(self) -> bool:
        """cudaStreamIsCapturing of the current stream."""
        return bool(self._cuda.is_current_stream_capturing())


@dataclass
class _Anchor:
    event: Any
    recorded_ns: int  # host time just before it was recorded
    before: _Anchor | None
    device_ns: int | None = field(default=None)  # host time at which the device reached it


class Stamp(NamedTuple):
    """One mark on the device's timeline."""

    event: Any
    anchor: _Anchor


class CudaClock:
    """DeviceClock over events. `mark` and `begin_step` run on training threads, the rest on the
    drain thread. Creating it waits for the device once, before training begins.
    """

    def __init__(self, events: Events, track: str) -> None:
        self.track = track
        self._events = events
        self._pool: list[Any] = []
        first = events.record(None)
        while not events.reached(first):
            pass
        seen_ns = now()
        self._anchor = _Anchor(first, seen_ns, None, seen_ns)

    def mark(self) -> Stamp | None:
        """Stamp the current stream; None during graph capture."""
        if self._events.capturing():
            return None
        used = self._pool.pop() if self._pool else None
        return Stamp(self._events.record(used), self._anchor)

    def begin_step(self) -> None:
        """Record the anchor that this step's stamps are measured from."""
        if not self._events.capturing():
            recorded_ns = now()
            self._anchor = _Anchor(self._events.record(None), recorded_ns, self._anchor)

    def resolve(self, event: Stamp) -> int | None:
        """Monotonic host ns at which the device reached a stamp; None while it has not."""
        if not self._events.reached(event.event):
            return None
        base_ns = self._date(event.anchor)
        if base_ns is None:
            return None
        return base_ns + round(self._events.elapsed_ms(event.anchor.event, event.event) * 1e6)

    def release(self, event: Stamp) -> None:
        """Keep a resolved stamp's event for another mark."""
        self._pool.append(event.event)

    def _date(self, anchor: _Anchor) -> int | None:
        """Host ns at which the device reached `anchor`, dating all undated ones before it."""
        undated = []
        while anchor.device_ns is None:
            undated.append(anchor)
            assert anchor.before is not None
            anchor = anchor.before
        for later in reversed(undated):
            if not self._events.reached(later.event):
                return None
            seen_ns = now()
            assert anchor.device_ns is not None
            gone_ns = round(self._events.elapsed_ms(anchor.event, later.event) * 1e6)
            later.device_ns = min(max(anchor.device_ns + gone_ns, later.recorded_ns), seen_ns)
            later.before = None  # lets the chain's past be freed
            anchor = later
        return anchor.device_ns

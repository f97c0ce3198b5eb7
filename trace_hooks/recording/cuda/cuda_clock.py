"""Device times from CUDA events, tied to the host's clock without waiting for the device.

elapsed_time is float32 milliseconds: 1 us exact at 10 s from its base, 250 us at an hour. So each
step records an anchor; anchor k is dated by its distance to anchor k - 1, every other stamp by its
distance to the anchor of its own step. Two facts that the host knows bound the chain: the device
reached an event no earlier than the host recorded it, and no later than the host saw it done.

A device that fails raises its error from every later call. The job has to find that out itself: the
clock returns LOST for all stamps that are still pending and takes no new ones.

The arithmetic and the failures are tested with a simulated device (tests/trace_hooks/
test_cuda_clock.py); docs/gpu.md says what was measured on a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from trace_hooks.recording.clock import LOST, now

FIRST_WAIT_S = 0.05
"""The clock waits for the device this long when it is made, and never again: on an idle device this
dates the first anchor exactly; on a busy one the time of recording is used."""

MAX_EVENTS = 65_536
"""Most events of marks, pending or kept for reuse; more would pile up only where nothing resolves
them, as with a disk that hangs."""

LEAST_NS = 60_000_000_000
"""Anchors that no stamp is measured from are kept this far apart, 4 us exact: where nothing dates
them, as in a job that records no spans of the device, each would keep an event for ever."""


class Events(Protocol):
    """What the clock needs of a device: events in the current stream."""

    def stream(self) -> int | None:
        """The current stream; None where an event may not be recorded: a graph is being captured,
        or another device than the clock's is current.
        """

    def record(self, event: Any | None, stream: int) -> Any:
        """Record an event, a used one if given, in the current stream, and return it."""

    def reached(self, event: Any) -> bool:
        """Whether the device has got there; returns at once."""

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """Milliseconds from one reached event to another."""


class CudaEvents:
    """Events of torch.cuda on one device.

    Each span is marked twice, so torch's functions are called without the checks around them, and a
    stream's object is made once: torch.cuda.current_stream() makes one each time.
    """

    def __init__(self, device: int) -> None:
        import torch

        self._cuda = torch.cuda
        self._device = device
        self._current_device: Callable[[], int] = torch._C._cuda_getDevice
        self._is_capturing: Callable[[], bool] = torch._C._cuda_isCurrentStreamCapturing
        self._raw_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self._streams: dict[int, Any] = {}  # by handle

    def stream(self) -> int | None:
        """The handle of the current stream, which must not be capturing a graph."""
        if self._current_device() != self._device or self._is_capturing():
            return None
        return self._raw_stream(self._device)

    def record(self, event: Any | None, stream: int) -> Any:
        """Record in the current stream."""
        if event is None:
            event = self._cuda.Event(enable_timing=True)
        place = self._streams.get(stream)
        if place is None:
            place = self._streams.setdefault(stream, self._cuda.current_stream())
        event.record(place)
        return event

    def reached(self, event: Any) -> bool:
        """cudaEventQuery."""
        return bool(event.query())

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """cudaEventElapsedTime: float32."""
        return float(first.elapsed_time(second))


@dataclass
class _Anchor:
    event: Any
    recorded_ns: int  # host time just before it was recorded
    before: _Anchor | None
    device_ns: int | None = field(default=None)  # host time at which the device reached it
    has_stamps: bool = False


class _NotReached(Exception):
    """The device has not got there yet, though it seemed so."""


class _Held:
    """An event of a mark, tracked by a weak reference. torch's own events must not have those: they
    do not clear them when they are freed.
    """

    __slots__ = ("__weakref__", "event")

    def __init__(self, event: Any) -> None:
        self.event = event


class Stamp(NamedTuple):
    """One mark on the device's timeline."""

    held: _Held | None  # None: there was no event left
    anchor: _Anchor
    stream: int

    @property
    def event(self) -> Any | None:
        """The device's own, where there was one left."""
        return None if self.held is None else self.held.event


def _needed(newest: _Anchor) -> _Anchor:
    """The newest anchor, or the one before it where that will do."""
    before = newest.before  # the drain thread takes it away once the newest is dated
    if newest.has_stamps or before is None or newest.recorded_ns - before.recorded_ns >= LEAST_NS:
        return newest
    return before


class CudaClock:
    """DeviceClock over events. `mark` and `begin_step` run on training threads, the rest on the
    drain thread. `failed` is called with the first error of the device, once.
    """

    def __init__(
        self, events: Events, name: str, failed: Callable[[Exception], object] = repr
    ) -> None:
        self._events = events
        self._name = name
        self._failed = failed
        self._is_lost = False
        self._pool: list[_Held] = []
        self._alive: WeakSet[_Held] = WeakSet()  # an abandoned mark drops its event
        self._streams: dict[int, int] = {}  # number by handle
        self._anchor = self._first_anchor()

    def track(self, stream: int) -> str:
        """The device, and the stream where it is not the first one."""
        return f"{self._name} stream {stream}" if stream else self._name

    def stream_of(self, event: Stamp) -> int:
        """Number of its stream."""
        return event.stream

    def mark(self) -> Stamp | None:
        """Stamp the current stream; None during graph capture and once the device has failed."""
        if self._is_lost:
            return None
        try:
            handle = self._events.stream()
            if handle is None:
                return None
            stream = self._streams.get(handle)
            if stream is None:
                stream = self._streams.setdefault(handle, len(self._streams))
            try:
                held = self._pool.pop()
                self._events.record(held.event, handle)
            except IndexError:  # another thread may have taken the last one
                if len(self._alive) >= MAX_EVENTS:
                    return Stamp(None, self._anchor, stream)
                held = _Held(self._events.record(None, handle))
                self._alive.add(held)
            anchor = self._anchor
            anchor.has_stamps = True
            return Stamp(held, anchor, stream)
        except RuntimeError as error:
            self._lose(error)
            return None

    def begin_step(self) -> None:
        """Record the anchor that this step's stamps are measured from."""
        if self._is_lost:
            return
        try:
            handle = self._events.stream()
            if handle is not None:
                recorded_ns = now()
                event = self._events.record(None, handle)
                self._anchor = _Anchor(event, recorded_ns, _needed(self._anchor))
        except RuntimeError as error:
            self._lose(error)

    def is_reached(self, event: Stamp) -> bool:
        """Whether `resolve` has an answer for a stamp."""
        if event.held is None or self._is_lost:
            return True
        try:
            return self._events.reached(event.held.event)
        except RuntimeError as error:
            self._lose(error)
            return True

    def resolve(self, event: Stamp, is_reached: bool = False) -> int | None:
        """Monotonic host ns at which the device reached a stamp; None while it has not, LOST once
        it has failed. `is_reached`: a later stamp of its stream is reached.
        """
        if event.held is None or self._is_lost:
            return LOST
        own = event.held.event
        try:
            if not is_reached and not self._events.reached(own):
                return None
            base_ns = self._date(event.anchor)
            if base_ns is None:
                return None
            return base_ns + round(self._elapsed_ms(event.anchor.event, own, is_reached) * 1e6)
        except _NotReached:
            return None
        except RuntimeError as error:
            self._lose(error)
            return LOST

    def _elapsed_ms(self, first: Any, second: Any, is_assumed: bool) -> float:
        """Where two threads share a stream, a stamp noted earlier may have been recorded later."""
        try:
            return self._events.elapsed_ms(first, second)
        except RuntimeError:
            if is_assumed and not self._events.reached(second):
                raise _NotReached from None
            raise

    def release(self, event: Stamp) -> None:
        """Keep a resolved stamp's event for another mark."""
        if event.held is not None:
            self._pool.append(event.held)

    def _first_anchor(self) -> _Anchor:
        handle = self._events.stream()
        if handle is None:
            raise RuntimeError("another device is current, or a graph is being captured")
        recorded_ns = now()
        first = _Anchor(self._events.record(None, handle), recorded_ns, None)
        while now() - recorded_ns < FIRST_WAIT_S * 1e9:
            if self._events.reached(first.event):
                first.device_ns = now()
                break
        return first

    def _date(self, anchor: _Anchor) -> int | None:
        """Host ns at which the device reached `anchor`, dating all undated ones before it."""
        undated = []
        while anchor.device_ns is None:
            undated.append(anchor)
            if anchor.before is None:
                break
            anchor = anchor.before
        for later in reversed(undated):
            if not self._events.reached(later.event):
                return None
            later.device_ns = self._dated(later, now())
            later.before = None  # lets the chain's past be freed
        return undated[0].device_ns if undated else anchor.device_ns

    def _dated(self, anchor: _Anchor, seen_ns: int) -> int:
        """Host ns of an anchor that was seen reached; the one before it is dated."""
        before = anchor.before
        if before is None or before.device_ns is None:
            return anchor.recorded_ns
        gone_ns = round(self._events.elapsed_ms(before.event, anchor.event) * 1e6)
        return min(max(before.device_ns + gone_ns, anchor.recorded_ns), seen_ns)

    def _lose(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._failed(error)

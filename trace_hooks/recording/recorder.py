"""What sources append to: flat lists that a drain thread empties.

A list's extend and a slice's delete are each one operation under the GIL, so writers need no lock:
the drain takes `rows[:n]` and deletes them while others append. Cost per span about 0.5 us of
thread CPU time (benchmarks/hook_overhead.py).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from threading import get_ident
from typing import Any, NamedTuple

from trace_hooks.protocol.plain_text import storable
from trace_hooks.recording.clock import DeviceClock, HostClock, now, thread_cpu
from trace_hooks.recording.rank_state import RankState
from trace_hooks.schema import KINDS, UNKNOWN

MAX_ROWS = 500_000
"""Rows that each list keeps when nothing drains them (a hung disk), up to about 250 MB a list;
further rows are dropped and counted."""


@dataclass(frozen=True)
class Site:
    """A place in the code that records spans: what all its spans have in common."""

    name: str
    kind: str
    mode: str = "eager"
    chunk: int = UNKNOWN

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown span kind {self.kind!r}; use one of {', '.join(KINDS)}")


class Mark:
    """The beginning of a span, made by Recorder.open; read-only, but for an event that is given up.

    Neither a tuple nor with a constructor: that would cost as much as the rest of a span.
    """

    __slots__ = ("begin_ns", "cpu_ns", "depth", "event", "step", "thread")

    begin_ns: int  # monotonic
    cpu_ns: int  # of this thread
    step: int
    depth: int
    event: Any | None  # stamp of the device clock
    thread: ThreadState


class Extra(NamedTuple):
    """Fields that only some spans have."""

    group_id: int = 0
    coll_seq: int = UNKNOWN
    peer: int = UNKNOWN
    num_bytes: int = UNKNOWN
    args: str | None = None


class SpanRow(NamedTuple):
    """One finished span as it stands in Recorder.spans, which is flat: these fields in turn."""

    site: int
    begin_ns: int  # monotonic
    end_ns: int
    cpu_ns: int
    step: int
    depth: int
    thread: int
    microbatch: int
    recompute: bool
    extra: Extra | None
    begin_event: Any | None
    end_event: Any | None


SPAN_FIELDS = len(SpanRow._fields)
MAX_SPAN_FIELDS = MAX_ROWS * SPAN_FIELDS


class CollectiveRow(NamedTuple):
    """One collective or point-to-point instance, all times monotonic ns."""

    step: int
    group_id: int
    seq: int
    op: str
    dtype: str
    num_bytes: int
    peer: int
    tag: int
    enqueue_ns: int
    start_ns: int
    end_ns: int
    state: str
    source: str


class ThreadState:
    """What a recorder knows of one thread."""

    __slots__ = ("depth", "ident")

    def __init__(self) -> None:
        self.depth = 0  # of the next span to begin
        self.ident = get_ident()


class _Threads(threading.local):
    """The state of each thread; a thread's first span also notes its name."""

    def __init__(self, thread_names: dict[int, str]) -> None:
        self.state = state = ThreadState()
        thread_names[state.ident] = _thread_name(state.ident, thread_names)


def _thread_name(ident: int, thread_names: dict[int, str]) -> str:
    if ident == threading.main_thread().ident:
        return "main"
    for thread in threading.enumerate():
        if thread.ident == ident and not isinstance(thread, threading._DummyThread):
            return storable(thread.name)
    number = sum(name.startswith("autograd") for name in thread_names.values())
    return f"autograd {number}"  # a thread that Python did not start


class Recorder:
    """Rows of one process, as its sources record them. Times are `clock.now()` readings."""

    def __init__(self, device_clock: DeviceClock | None = None) -> None:
        self.rank_state = RankState()
        self.device_clock = device_clock or HostClock()
        self.dropped = 0  # rows
        self.is_over = False  # nothing drains the rows any more
        self.sites: list[Site] = []
        self.spans: list[Any] = []  # flat, SPAN_FIELDS per span
        self.collectives: list[CollectiveRow] = []
        self.rows: list[tuple[str, dict[str, Any]]] = []  # (table, row) of the rare tables
        self.thread_names: dict[int, str] = {}  # by ident, of every thread that recorded a span
        self._site_ids: dict[tuple[str, str, str, int], int] = {}
        self._tracks: dict[str, int] = {}
        self._threads = _Threads(self.thread_names)
        self._max_rows, self._max_span_fields = MAX_ROWS, MAX_SPAN_FIELDS

    @property
    def device_clock(self) -> DeviceClock:
        """Clock of the accelerator; a job without one has the host's."""
        return self._device_clock

    @device_clock.setter
    def device_clock(self, clock: DeviceClock) -> None:
        self._device_clock = clock
        self._stamp = None if type(clock) is HostClock else clock.mark

    @property
    def depth(self) -> int:
        """Of the next span to begin on this thread: how many are open."""
        return self._threads.state.depth

    def site(self, name: str, kind: str, mode: str = "eager", chunk: int = UNKNOWN) -> int:
        """Number of a place that records spans; callers get it once and keep it."""
        key = (name, kind, mode, chunk)
        known = self._site_ids.get(key)
        if known is None:
            site = Site(storable(name), kind, mode, chunk)
            self.sites.append(site)
            number = len(self.sites) - 1
            while self.sites[number] is not site:  # another thread has appended since
                number -= 1
            known = self._site_ids.setdefault(key, number)
        return known

    def thread_name(self, ident: int) -> str:
        """What a thread is called: main, its name, autograd N, or thread and its ident."""
        return self.thread_names.get(ident) or f"thread {ident}"

    def track(self, name: str) -> int:
        """Number that stands for a track which is not a thread (drain thread)."""
        number = self._tracks.get(name)
        if number is None:
            number = self._tracks[name] = -1 - len(self._tracks)
            self.thread_names[number] = name
        return number

    def end(self) -> None:
        """Take no more rows. Other code may still hold functions that sources had put in place of
        theirs (`from torch import save`): those record nothing from now on.
        """
        self.is_over = True
        self._max_rows = self._max_span_fields = 0

    def open(self) -> Mark:
        """Begin a span on this thread; spans opened before it closes lie inside it."""
        mark = Mark()
        mark.thread = thread = self._threads.state
        mark.depth = depth = thread.depth
        thread.depth = depth + 1
        mark.step = self.rank_state.step
        stamp = self._stamp
        mark.event = None if stamp is None else stamp()
        mark.begin_ns = now()
        mark.cpu_ns = thread_cpu()
        return mark

    def close(
        self,
        site: int,
        mark: Mark,
        microbatch: int = UNKNOWN,
        recompute: bool = False,
        extra: Extra | None = None,
    ) -> None:
        """End the span begun with `mark`.

        A span that an exception left open is not recorded; closing an outer one corrects the depth.
        One that outlives a span around it (in a generator, a coroutine) leaves the depth as it is.
        """
        end_ns, thread, spans = now(), mark.thread, self.spans
        depth = mark.depth
        if depth < thread.depth:
            thread.depth = depth
        if len(spans) >= self._max_span_fields:
            self.dropped += 1
            return
        event = mark.event
        spans += (
            site,
            mark.begin_ns,
            end_ns,
            thread_cpu() - mark.cpu_ns,
            mark.step,
            depth,
            thread.ident,
            microbatch,
            recompute,
            extra,
            event,
            None if event is None else self._device_clock.mark(),
        )

    def add_span(
        self,
        site: int,
        begin_ns: int,
        end_ns: int,
        *,
        step: int,
        cpu_ns: int = UNKNOWN,
        microbatch: int = UNKNOWN,
        recompute: bool = False,
        extra: Extra | None = None,
        thread: int | None = None,
        depth: int | None = None,
    ) -> None:
        """Record a span whose times are known already (monotonic ns); by default of this thread, at
        its present depth.
        """
        if len(self.spans) >= self._max_span_fields:
            self.dropped += 1
            return
        state = self._threads.state
        ident = state.ident if thread is None else thread
        depth = state.depth if depth is None else depth
        self.spans += (
            site,
            begin_ns,
            end_ns,
            cpu_ns,
            step,
            depth,
            ident,
            microbatch,
            recompute,
            extra,
            None,
            None,
        )

    def add_collective(self, row: CollectiveRow) -> None:
        """Record an instance that is complete, or will never be."""
        if len(self.collectives) >= self._max_rows:
            self.dropped += 1
            return
        self.collectives.append(row)

    def add_row(self, table: str, **values: Any) -> None:
        """Record a row of a rare table (steps, memory, marks, groups, data_batches, ...).

        attempt, rank and step are filled in; columns named *_ns that are points in time (ts_ns,
        start_ns) are monotonic `clock.now()` readings like everywhere in the recorder.
        """
        if len(self.rows) >= self._max_rows:
            self.dropped += 1
            return
        values.setdefault("step", self.rank_state.step)
        self.rows.append((table, values))

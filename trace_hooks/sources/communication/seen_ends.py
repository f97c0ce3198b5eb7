"""When collectives that no wrapper saw are known to be over: a call that waited for them returned.

DDP's reducer waits at the end of the backward pass for all the all-reduces that it issued in it.
They were over by then, each perhaps earlier: their ends are bounds, as those of every collective
that a job waits for later than it had to.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from trace_hooks.recording.clock import LOST, DeviceClock, now
from trace_hooks.recording.recorder import Extra, Mark, Recorder
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.communication.process_groups import Group

MOST_KEPT = 10_000
"""Waits remembered until the Flight Recorder is read; of older ones no end is known."""


class Wait:
    """A call that returns once the collectives numbered first .. last of a group are over."""

    __slots__ = ("end_ns", "event", "first", "group_id", "last")

    def __init__(self, group: Group, first: int, last: int, end_ns: int, event: Any) -> None:
        self.group_id = group.group_id
        self.first, self.last = first, last
        self.end_ns = end_ns
        self.event = event  # stamp of the device; None: end_ns is the end


class SeenEnds:
    """Waits that have returned, the newest last (training adds, the drain thread asks)."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waits: deque[Wait] = deque(maxlen=MOST_KEPT)

    def add(self, group: Group, first: int, last: int) -> None:
        """The group's collectives first .. last are over once the device gets here."""
        event = None if group.backend == "gloo" else self._recorder.device_clock.mark()
        if event is not None or group.backend == "gloo":
            self._waits.append(Wait(group, first, last, now(), event))

    def end_of(self, group: Group, seq: int) -> int | None:
        """When a collective was known to be over, host ns; None: the device is not there yet;
        UNKNOWN where no call waited for it.
        """
        for wait in list(self._waits):
            if wait.group_id == group.group_id and wait.first <= seq <= wait.last:
                return self._resolved(wait, self._recorder.device_clock)
        return UNKNOWN

    def _resolved(self, wait: Wait, clock: DeviceClock) -> int | None:
        if wait.event is not None:
            end_ns = clock.resolve(wait.event)
            if end_ns is None:
                return None
            clock.release(wait.event)
            wait.event = None
            wait.end_ns = UNKNOWN if end_ns == LOST else end_ns
        return wait.end_ns

    def forget_before(self, group: Group, seq: int) -> None:
        """Rows of the group's collectives before `seq` are written."""
        waits = self._waits
        with suppress(IndexError):  # another thread has emptied it
            while waits and waits[0].group_id == group.group_id and waits[0].last < seq:
                waits.popleft()


class Waiting:
    """A call that waits for collectives of a group which it issues by itself, from C++."""

    def __init__(self, recorder: Recorder, group: Group) -> None:
        self.group = group
        with group.lock:
            group.note_unseen()
            self.before = group.claimed
        self._recorder = recorder
        self._mark: Mark | None = None

    def blocks(self) -> None:
        """From now on the thread does nothing but wait."""
        self._mark = self._recorder.open()

    def returned(self, ends: SeenEnds, site: int) -> None:
        """It has waited: record the time as a span of the last of them, and their end."""
        group, mark = self.group, self._mark
        with group.lock:
            group.note_unseen()
            last = group.claimed
        if last > self.before:
            ends.add(group, self.before + 1, last)
        if mark is None:
            return
        if last > self.before:
            self._recorder.close(site, mark, extra=Extra(group.group_id, last))
        else:
            mark.thread.depth = mark.depth  # it waited for nothing

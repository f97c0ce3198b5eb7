"""Collectives and messages in progress: from the call that enters one to its row.

Shared by the sources that see communication (wrapped methods, functional operators, Flight
Recorder), so that one instance becomes one row whoever saw it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from threading import get_ident
from typing import Any, NamedTuple

from trace_hooks.recording.clock import LOST, now
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import CollectiveRow, Extra, Mark, Recorder
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.communication.process_groups import Group, Groups
from trace_hooks.sources.communication.seen_ends import SeenEnds


class Payload(NamedTuple):
    """The data that a call moves."""

    num_bytes: int
    dtype: str
    on_device: bool


NOTHING = Payload(0, "", False)

SEQUENCES = (list, tuple)

P2P = ("send", "recv")

_new = tuple.__new__  # makes a NamedTuple at half the cost of its own constructor

_payloads: dict[tuple[int, Any, bool], Payload] = {}

MAX_PAYLOADS = 10_000
"""Payloads remembered; jobs with sequences of any length always have new ones."""


def payload_of(value: Any) -> Payload:
    """Bytes and dtype of a tensor or nested lists of tensors."""
    if isinstance(value, SEQUENCES):
        if len(value) == 1:
            return payload_of(value[0])
        parts = [payload_of(part) for part in value]
        if not parts:
            return NOTHING
        return Payload(sum(part.num_bytes for part in parts), parts[0].dtype, parts[0].on_device)
    try:
        key = (value.nbytes, value.dtype, value.is_cpu)
    except AttributeError:  # no tensor
        return NOTHING
    return _payloads.get(key) or _new_payload(*key)


def _new_payload(num_bytes: int, dtype: Any, on_cpu: bool) -> Payload:
    if len(_payloads) >= MAX_PAYLOADS:
        _payloads.clear()
    payload = Payload(num_bytes, str(dtype).removeprefix("torch."), not on_cpu)
    return _payloads.setdefault((num_bytes, dtype, on_cpu), payload)


MOST_ON_DEVICE = 65_536
"""Instances that wait for the stamps of the device; more would pile up only where a disk hangs, and
the device's clock has no more events for them anyway."""


class Instance:
    """One collective or message this rank has entered and not yet seen complete."""

    __slots__ = (
        "counted_before",
        "dtype",
        "end_event",
        "enqueue_ns",
        "group",
        "is_kept",
        "is_p2p",
        "mark",
        "num_bytes",
        "op",
        "peer",
        "ring_number",
        "seq",
        "source",
        "start_event",
        "step",
        "tag",
    )

    def __init__(
        self, group: Group, op: str, payload: Payload, source: str, step: int, peer: int, tag: int
    ) -> None:
        self.group = group
        self.op = op
        self.num_bytes, self.dtype, _ = payload
        self.source = source
        self.step = step
        self.peer = peer
        self.tag = tag
        self.is_kept = True  # False: of a prompt, so it is counted but leaves no row
        self.is_p2p = op in P2P  # a message between two ranks, which only they count
        self.seq = UNKNOWN
        self.ring_number = 0  # of its record in the ring; 0: none
        self.counted_before = 0
        self.enqueue_ns = 0
        self.mark: Mark | None = None  # of a call that returns only when it is complete
        self.start_event: Any = None
        self.end_event: Any = None


class CollectiveLog:
    """Numbers instances, writes them to the ring, turns them into rows and blocking spans."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.rank_state = recorder.rank_state
        self.groups = Groups(recorder)
        self.seen_ends = SeenEnds(recorder)  # of collectives that others issue
        self._sites: dict[tuple[str, str, int], int] = {}
        self._on_device: deque[tuple[Instance, str]] = deque()  # complete once stamps resolve
        from torch import distributed

        if distributed.is_initialized():
            entries = [
                entry
                for recorder in (flight_dump.SHARED, flight_dump.NCCL)
                for entry in flight_dump.entries_from(flight_dump.dump(recorder), 0)
            ]
            self.groups.start_from_now(flight_dump.last_numbers(entries))

    def begin(
        self,
        group: Group,
        op: str,
        payload: Payload,
        source: str,
        blocking: bool = False,
        peer: int = UNKNOWN,
        tag: int = UNKNOWN,
    ) -> Instance:
        """This rank is about to enter `op`; `peer` is the other global rank of a send or recv."""
        recorder, state = self.recorder, self.rank_state
        instance = Instance(group, op, payload, source, state.step, peer, tag)
        if state.prompting_thread:
            instance.is_kept = state.prompting_thread != get_ident()
        with group.lock:
            instance.counted_before = group.note_unseen()
            group.in_call += 1
            if not instance.is_p2p:
                group.claimed = instance.seq = group.claimed + 1
        if peer != UNKNOWN:
            instance.seq = self._next_p2p(instance)
        if payload.on_device and instance.is_kept:
            instance.start_event = recorder.device_clock.mark()
        if blocking:
            instance.mark = mark = recorder.open()
            enqueue_ns = mark.begin_ns
        else:
            enqueue_ns = now()
        instance.enqueue_ns = enqueue_ns
        state.last_op = op
        ring = state.ring
        if ring is not None:
            instance.ring_number = ring.write(
                group.group_id,
                instance.seq,
                op,
                instance.dtype,
                instance.num_bytes,
                peer,
                tag,
                instance.step,
                enqueue_ns,
            )
        return instance

    def issued(self, instance: Instance) -> None:
        """The backend has accepted the instance: its group has counted it by now, or never will."""
        group = instance.group
        with group.lock:
            group.in_call -= 1
            counted = group.count() - instance.counted_before
            if instance.is_p2p:
                group.p2p_counted += counted
            elif counted != 1:
                group.surplus += counted - 1

    def refused(self, instance: Instance) -> None:
        """The call raised: a collective that its group did not count did not happen."""
        group = instance.group
        with group.lock:
            counted = group.count() - instance.counted_before
            if counted == 0 and not instance.is_p2p:
                group.claimed -= 1
                group.surplus += 1  # taken back by issued()
                instance.seq = UNKNOWN
        self.issued(instance)
        if instance.mark is not None:
            self.span(instance, instance.mark)
        self.finish(instance, "failed", now())

    def span(self, instance: Instance, mark: Mark) -> None:
        """Close a span in which this rank was blocked by the instance."""
        if not instance.is_kept:
            mark.thread.depth = mark.depth
            return
        if instance.start_event is None:
            mark.event = None  # no work of the device: use the host's times
        recorder, state, group = self.recorder, self.rank_state, instance.group
        key = (instance.op, group.axis, state.chunk)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = recorder.site(instance.op, group.kind, chunk=key[2])
        extra = (group.group_id, instance.seq, instance.peer, instance.num_bytes, None)
        recorder.close(site, mark, state.microbatch, False, _new(Extra, extra))

    def finish(self, instance: Instance, state: str, end_ns: int) -> None:
        """Write an instance about which no more will be known; end_ns -1: its end was not seen."""
        if instance.start_event is not None and state == "completed":
            instance.end_event = self.recorder.device_clock.mark()
            if instance.end_event is not None and len(self._on_device) < MOST_ON_DEVICE:
                self._on_device.append((instance, state))
                return
            state, end_ns = "started", UNKNOWN  # also while a graph is captured: it runs later
        self._record(instance, state, instance.enqueue_ns, end_ns)

    def resolve_device_times(self) -> None:
        """Write the rows of instances whose device stamps are known by now (drain thread)."""
        clock = self.recorder.device_clock
        for instance, state in self._taken():
            start_ns = clock.resolve(instance.start_event)
            end_ns = clock.resolve(instance.end_event)
            if start_ns is None or end_ns is None:
                self._on_device.append((instance, state))
                continue
            if LOST in (start_ns, end_ns):
                self._record(instance, "started", instance.enqueue_ns, UNKNOWN)
                continue
            clock.release(instance.start_event)
            clock.release(instance.end_event)
            self._record(instance, state, start_ns, end_ns)

    def give_up_device_times(self) -> None:
        """Write the rows still waiting for stamps, without an end."""
        self.resolve_device_times()
        for instance, _ in self._taken():
            self._record(instance, "started", instance.enqueue_ns, UNKNOWN)

    def _taken(self) -> Iterator[tuple[Instance, str]]:
        """Take those that wait now, one by one: training may add more meanwhile."""
        for _ in range(len(self._on_device)):
            with suppress(IndexError):  # the end of training empties it as well
                yield self._on_device.popleft()

    def found_peer(self, instance: Instance, peer: int) -> None:
        """Set the sender of a receive from any rank, and its number, once it was matched."""
        instance.peer = peer
        instance.seq = self._next_p2p(instance)

    def _next_p2p(self, instance: Instance) -> int:
        group, me = instance.group, instance.group.me
        src, dst = (me, instance.peer) if instance.op == "send" else (instance.peer, me)
        return group.next_p2p(src, dst, instance.tag)

    def _record(self, instance: Instance, state: str, start_ns: int, end_ns: int) -> None:
        ring = self.rank_state.ring
        if ring is not None and instance.ring_number:
            ring.ended(instance.ring_number, end_ns if state == "completed" else UNKNOWN)
        if not instance.is_kept:
            return
        row = (
            instance.step,
            instance.group.group_id,
            instance.seq,
            instance.op,
            instance.dtype,
            instance.num_bytes,
            instance.peer,
            instance.tag,
            instance.enqueue_ns,
            start_ns,
            end_ns,
            state,
            instance.source,
        )
        self.recorder.add_collective(_new(CollectiveRow, row))


_logs: weakref.WeakKeyDictionary[Recorder, CollectiveLog] = weakref.WeakKeyDictionary()


def log_of(recorder: Recorder) -> CollectiveLog:
    """The one log of a recorder."""
    log = _logs.get(recorder)
    if log is None:
        log = _logs[recorder] = CollectiveLog(recorder)
    return log


class Outstanding:
    """Instances by the object (a Work, a tensor) whose wait ends them.

    Objects are held weakly: holding one would keep its tensors alive. One that is freed before a
    wait leaves a row without an end.
    """

    def __init__(self, log: CollectiveLog) -> None:
        self._log = log
        self._by_key: dict[int, tuple[weakref.ref[Any], list[Instance]]] = {}

    def add(self, key: int, awaited: Any, instances: list[Instance]) -> None:
        """Have a wait for `awaited`, which `key` identifies, end these instances.

        Instances of an earlier collective on the same memory (in place, never waited for) are
        written without an end.
        """
        if key in self._by_key:
            self.give_up(key)
        self._by_key[key] = (weakref.ref(awaited, lambda _: _dropped(self, key)), instances)

    def get(self, key: int) -> list[Instance] | None:
        """Instances that a wait would end; None for an object that was never added."""
        entry = self._by_key.get(key)
        return None if entry is None else entry[1]

    def end(self, key: int, state: str) -> None:
        """The wait is over: the instances are completed or failed."""
        end_ns = now()
        entry = self._by_key.pop(key, None)
        for instance in entry[1] if entry is not None else ():
            self._log.finish(instance, state, end_ns)

    def end_all(self) -> None:
        """Write what is still outstanding without an end: nothing more will be seen."""
        for key in list(self._by_key):
            self.give_up(key)

    def give_up(self, key: int) -> None:
        """Write the instances of an object that no call will wait for, without an end."""
        entry = self._by_key.pop(key, None)
        for instance in entry[1] if entry is not None else ():
            self._log.finish(instance, "started", UNKNOWN)


@guarded("collectives.dropped")
def _dropped(outstanding: Outstanding, key: int) -> None:
    outstanding.give_up(key)

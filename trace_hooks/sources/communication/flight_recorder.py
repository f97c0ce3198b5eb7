"""Collectives that only torch's Flight Recorder saw: DDP's reducer, compiled regions, other C++.

Wrappers notice a gap in a group's numbers at almost no cost. Only then, and rarely enough to cost
at most MAX_SHARE of the time, the drain thread reads the recorder and fills the gap. Its times say
when a collective was created, not when it ran: rows have the end of the call that waited for it
(ddp.py, compiled regions), or none. Where NCCL measures its kernels (TORCH_NCCL_ENABLE_TIMING),
they have the end that it found and the time that it measured. On gloo the recorder calls a
collective "completed" that failed on its time-out, so rows of the wrappers take precedence. A group
is read a last time before it is shut down, because most jobs destroy their groups before they exit.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from trace_hooks.recording.clock import Anchor, now
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import CollectiveRow
from trace_hooks.schema import BEFORE_FIRST_STEP, UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.communication.collective_log import CollectiveLog, log_of
from trace_hooks.sources.communication.process_groups import LOCK_S, Group
from trace_hooks.sources.patching import Patches

MAX_SHARE = 0.01
"""Share of the time spent reading: a dump of 0.1 s is followed by 10 s without one."""

DTYPES = {
    "Float": ("float32", 4),
    "Double": ("float64", 8),
    "Half": ("float16", 2),
    "BFloat16": ("bfloat16", 2),
    "Float8_e4m3fn": ("float8_e4m3fn", 1),
    "Float8_e5m2": ("float8_e5m2", 1),
    "Long": ("int64", 8),
    "Int": ("int32", 4),
    "Short": ("int16", 2),
    "Char": ("int8", 1),
    "Byte": ("uint8", 1),
    "Bool": ("bool", 1),
}
"""torch dtype name and bytes of what the Flight Recorder calls dtypes."""

STEPS_KEPT = 10_000


class FlightRecorder(Source):
    """Fills the gaps that wrappers notice."""

    name = "flight_recorder"

    def install(self) -> None:
        """Begin with what is recorded from now on."""
        from torch import distributed

        self._available = distributed.is_available()
        self._pid = os.getpid()
        self._patches = Patches()
        if not self._available:
            return
        self._log: CollectiveLog = log_of(self.recorder)
        self._anchor = Anchor()
        self._next_record: Counter[str] = Counter()  # by recorder; each numbers its own records
        self._not_before_ns = 0
        self._under_way: dict[
            tuple[int, int], int
        ] = {}  # ring numbers of those read before their end
        self._steps: deque[tuple[int, int]] = deque(maxlen=STEPS_KEPT)  # (begin_ns, step)
        self._reading = threading.RLock()  # the drain thread polls; re-entrant for LOCK_S's reason
        self._patches.replace(distributed.ProcessGroup, "shutdown", partial(_shutdown, self))

    def uninstall(self) -> None:
        """Read once more, in the process that was recorded: a fork may have copied held locks."""
        self._patches.restore()
        self.read_last()
        self._available = False

    def read_last(self, last: bool = True) -> None:
        """Fill the gaps there are now; `last`: also with collectives that have not completed."""
        if self._available and self._pid == os.getpid() and self._has_gaps():
            self._read(last)

    def step_begin(self) -> None:
        """Remember when the step began, to find the step of entries that are read later."""
        if self._available:
            self._steps.append((now(), self.rank_state.step))

    def poll(self) -> None:
        """Read where a group has counted more than the wrappers saw, if a read is due."""
        if self._available and now() >= self._not_before_ns and self._has_gaps():
            self._read(last=False)

    def _has_gaps(self) -> bool:
        from torch import distributed

        if not distributed.is_initialized():
            return False
        unseen = False
        for group in self._log.groups.scan():
            if group.lock.acquire(timeout=LOCK_S):
                if group.in_call == 0:
                    group.note_unseen()
                group.lock.release()
            unseen = unseen or bool(group.unseen)
        return unseen

    def _read(self, last: bool) -> None:
        if self._reading.acquire(timeout=LOCK_S):
            try:
                self._fill_gaps(last)
            finally:
                self._reading.release()

    def _fill_gaps(self, last: bool) -> None:
        begun = now()
        groups = {group.name: group for group in self._log.groups.scan()}
        with_gaps = [group for group in groups.values() if group.unseen]
        for recorder in {flight_dump.recorder_of(group.backend) for group in with_gaps}:
            self._read_recorder(recorder, groups, last)
        self._not_before_ns = begun + int((now() - begun) / MAX_SHARE)

    def _read_recorder(self, recorder: str, groups: dict[str, Group], last: bool) -> None:
        first = self._next_record[recorder]
        entries = flight_dump.entries_from(flight_dump.dump(recorder), first)
        unsettled = math.inf
        newest: dict[str, int] = {}
        for entry in entries:
            group = groups.get(entry["process_group"][0])
            if group is None or entry["is_p2p"] or not _same_backend(entry, group):
                continue
            newest[group.name] = _count_at(entry, group)
            if not self._settle(entry, group, last):
                unsettled = min(unsettled, entry["record_id"])
        if entries:
            self._next_record[recorder] = int(min(unsettled, entries[-1]["record_id"] + 1))
        for name, number in newest.items():
            group = groups[name]
            self._forget_overwritten(group, number)
            self._log.seen_ends.forget_before(
                group, min(group.unseen.values(), default=group.claimed)
            )

    def _settle(self, entry: flight_dump.Entry, group: Group, last: bool) -> bool:
        """Write the row of an entry that no wrapper saw; False where it has to be read again."""
        count = _count_at(entry, group)
        seq = group.unseen.get(count)
        if seq is None:
            return count <= group.claimed + group.p2p_counted + group.surplus
        state = _state(entry)
        end_ns = self._end_of(entry, group, seq) if state == "completed" else UNKNOWN
        row = self._row(entry, group, seq, state, UNKNOWN if end_ns is None else end_ns)
        if (state != "completed" or end_ns is None) and not last:
            self._announce(row)
            return False
        group.unseen.pop(count, None)
        self._ended(row)
        self.recorder.add_collective(row)
        return True

    def _announce(self, row: CollectiveRow) -> None:
        """Write it to the ring once, in case it never ends."""
        key = (row.group_id, row.seq)
        if key in self._under_way:
            return
        self._under_way[key] = 0
        if self.rank_state.ring is not None:
            self._under_way[key] = self.rank_state.ring.write(
                row.group_id,
                row.seq,
                row.op,
                row.dtype,
                row.num_bytes,
                row.peer,
                row.tag,
                row.step,
                row.enqueue_ns,
            )

    def _ended(self, row: CollectiveRow) -> None:
        number, ring = self._under_way.pop((row.group_id, row.seq), 0), self.rank_state.ring
        if number and ring is not None:
            ended_ns = row.end_ns if row.end_ns != UNKNOWN else now()
            ring.ended(number, ended_ns if row.state == "completed" else UNKNOWN)

    def _end_of(self, entry: flight_dump.Entry, group: Group, seq: int) -> int | None:
        """End of a completed collective, monotonic ns; None not known yet, UNKNOWN never."""
        seen_ns = self._log.seen_ends.end_of(group, seq)
        found_ns = int(entry.get("time_discovered_completed_ns") or 0) - self._anchor.offset_ns
        if not entry.get("duration_ms") or found_ns <= 0:
            return seen_ns
        return found_ns if seen_ns in (None, UNKNOWN) else min(found_ns, seen_ns)

    def _forget_overwritten(self, group: Group, newest: int) -> None:
        """Drop gaps older than the newest entry: the recorder has overwritten their entries."""
        self.recorder.dropped += group.forgotten
        group.forgotten = 0
        for count, seq in list(group.unseen.items()):  # training may add more meanwhile
            if count < newest and (group.group_id, seq) not in self._under_way:
                group.unseen.pop(count, None)
                self.recorder.dropped += 1

    def _row(
        self, entry: flight_dump.Entry, group: Group, seq: int, state: str, end_ns: int
    ) -> CollectiveRow:
        created_ns = int(entry["time_created_ns"]) - self._anchor.offset_ns
        dtype, num_bytes = _payload(entry)
        return CollectiveRow(
            self._step_at(created_ns),
            group.group_id,
            seq,
            _op(entry["profiling_name"]),
            dtype,
            num_bytes,
            UNKNOWN,
            UNKNOWN,
            created_ns,
            _start_ns(entry, created_ns, end_ns),
            end_ns,
            state,
            self.name,
        )

    def _step_at(self, at_ns: int) -> int:
        steps = list(self._steps)
        num_begun = bisect_right(steps, at_ns, key=lambda step: step[0])
        return steps[num_begun - 1][1] if num_begun else BEFORE_FIRST_STEP


def _shutdown(source: FlightRecorder, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def shutdown(pg: Any, *args: Any, **kwargs: Any) -> Any:
        _before_shutdown(source, pg)
        return original(pg, *args, **kwargs)

    return shutdown


@guarded("flight_recorder.shutdown")
def _before_shutdown(source: FlightRecorder, pg: Any) -> None:
    from torch.distributed import distributed_c10d

    source.read_last(last=pg is distributed_c10d.GroupMember.WORLD)


def _start_ns(entry: flight_dump.Entry, created_ns: int, end_ns: int) -> int:
    """When the collective began: by the time that NCCL measured, else when it was created."""
    measured_ns = round(float(entry.get("duration_ms") or 0) * 1e6)
    if end_ns == UNKNOWN or not measured_ns:
        return created_ns
    return max(created_ns, end_ns - measured_ns)


def _count_at(entry: flight_dump.Entry, group: Group) -> int:
    """The group's count at this entry: gloo counts messages as well, NCCL does not."""
    return int(entry["op_id"] if group.backend == "gloo" else entry["collective_seq_id"])


def _same_backend(entry: flight_dump.Entry, group: Group) -> bool:
    """Whether an entry is of the backend whose count numbers the group."""
    return str(entry["profiling_name"]).partition(":")[0] == group.backend


def _state(entry: flight_dump.Entry) -> str:
    if entry["retired"] or entry["state"] == "completed":
        return "completed"
    return "started" if entry["state"] == "started" else "enqueued"


def _op(profiling_name: str) -> str:
    """Our name of an operation such as gloo:all_reduce or nccl:_all_gather_base."""
    plain = profiling_name.rpartition(":")[2].strip("_")
    for ending in ("_base", "_coalesced", "_barrier"):
        plain = plain.removesuffix(ending)
    return {"allreduce": "all_reduce", "ALLTOALL": "all_to_all"}.get(plain, plain)


def _payload(entry: flight_dump.Entry) -> tuple[str, int]:
    """Torch dtype and bytes of the inputs; ('', -1) where the dtype is not known."""
    names, shapes = entry["input_dtypes"], entry["input_sizes"]
    if not names:
        return "", 0
    if any(name not in DTYPES for name in names):
        return "", UNKNOWN
    sizes: list[Any] = [DTYPES[name][1] for name in names]
    return DTYPES[names[0]][0], sum(
        math.prod(shape) * size for shape, size in zip(shapes, sizes, strict=False)
    )

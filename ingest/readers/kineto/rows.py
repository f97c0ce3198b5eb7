"""Rows of one torch.profiler file for the sink: spans, steps, collectives, groups, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.readers.base import Sink
from ingest.readers.kineto.collectives import Instance
from ingest.readers.kineto.events import TRACK_KINDS, Columns, Window
from ingest.readers.kineto.flows import Launches
from ingest.readers.kineto.memory import MemoryEvents, memory_rows
from ingest.readers.kineto.operations import Times
from ingest.readers.kineto.recompute import Recomputed
from ingest.readers.tables.nesting import depths
from ingest.readers.tables.process_groups import write_groups
from ingest.readers.tables.rows import Coded, rows
from trace_hooks.schema import BEFORE_FIRST_STEP, KINDS, UNKNOWN

ROWS_AT_ONCE = 1 << 18
_SOURCE = "kineto"

Ints = npt.NDArray[np.int64]


@dataclass
class Spans:
    """Columns of one file's spans, N of them, in the file's order."""

    ts_ns_N: npt.NDArray[np.int64]
    dur_ns_N: npt.NDArray[np.int64]
    kind_N: npt.NDArray[np.int8]
    name_N: npt.NDArray[np.int32]
    track_N: npt.NDArray[np.int32]
    recompute_N: npt.NDArray[np.bool_]
    args: Coded
    """of all N; the last text is None"""
    columns: Columns
    instances: list[Instance]
    windows: list[Window]

    @classmethod
    def of(
        cls,
        columns: Columns,
        instances: list[Instance],
        windows: list[Window],
        base_ns: int,
        on_cpu: bool,
    ) -> Spans:
        """All spans of a file, whose times count from `base_ns`; the columns are used up. `on_cpu`:
        operators cannot have run elsewhere.

        Collectives for which no call was found get the time of the launch as `enqueue_ns`.
        """
        ts_ns, dur_ns, kind, name, track = columns.joined()
        thread = track // len(TRACK_KINDS)
        on_gpu = np.flatnonzero(track % len(TRACK_KINDS) == TRACK_KINDS.index("gpu"))
        launches = columns.flows.launches(thread[on_gpu], ts_ns[on_gpu])
        thread, launches = columns.first_alike()[thread], launches.renumbered(columns.first_alike())
        again = Recomputed(columns.names, name, thread, ts_ns, ts_ns + dur_ns)
        recompute = again.holds(thread, ts_ns)
        recompute[on_gpu] = again.holds(launches.thread_N, launches.ts_ns_N)
        _set_launch_times(instances, launches, on_gpu)
        for instance in instances:
            if instance.row >= 0:
                kind[instance.row] = KINDS.index(instance.group.kind)
        computing = kind[on_gpu] == KINDS.index("kernel")
        times = Times(thread, ts_ns, ts_ns + dur_ns)
        kernels, of_kernels = on_gpu[computing], launches.of(computing)
        args = columns.operators.args(times, kernels, of_kernels, on_cpu)
        ts_ns += base_ns
        return cls(ts_ns, dur_ns, kind, name, track, recompute, args, columns, instances, windows)

    def write(self, sink: Sink, rank: int) -> None:
        """Give them to the sink in order of time, a piece at a time."""
        depth_N = depths(self.track_N, self.ts_ns_N, self.dur_ns_N)
        comm = [instance for instance in self.instances if instance.row >= 0]
        num_bytes = _Sparse(
            [
                *((instance.row, instance.args.num_bytes) for instance in comm),
                *self.columns.copied_bytes,
            ],
            UNKNOWN,
        )
        group_id = _Sparse([(instance.row, instance.group.group_id) for instance in comm], 0)
        seq = _Sparse([(instance.row, instance.seq) for instance in comm], UNKNOWN)
        peer = _Sparse([(instance.row, instance.peer) for instance in comm], UNKNOWN)
        names, tracks = self.columns.names, _track_names(self.columns.tracks)
        order = np.argsort(self.ts_ns_N, kind="stable")
        for start in range(0, len(order), ROWS_AT_ONCE):
            part = order[start : start + ROWS_AT_ONCE]
            columns = {
                "rank": rank,
                "step": steps_at(self.windows, self.ts_ns_N[part]),
                "ts_ns": self.ts_ns_N[part],
                "dur_ns": self.dur_ns_N[part],
                "kind": Coded(self.kind_N[part], KINDS),
                "name": Coded(self.name_N[part], names),
                "track": Coded(self.track_N[part], tracks),
                "depth": depth_N[part],
                "recompute": self.recompute_N[part],
                "group_id": group_id.at(part),
                "coll_seq": seq.at(part),
                "peer": peer.at(part),
                "num_bytes": num_bytes.at(part),
                "args": Coded(self.args.codes[part], self.args.texts),
            }
            sink.add_rows("spans", rank, rows("spans", len(part), columns))


def _set_launch_times(instances: list[Instance], launches: Launches, gpu_rows: Ints) -> None:
    """Give collectives that have no call the time at which their kernel was launched."""
    for instance in instances:
        position = int(np.searchsorted(gpu_rows, instance.row))
        is_launched = (
            instance.enqueue_ns == instance.start_ns
            and position < len(gpu_rows)
            and gpu_rows[position] == instance.row
            and launches.thread_N[position] >= 0
        )
        if is_launched and launches.ts_ns_N[position] <= instance.start_ns:
            instance.enqueue_ns = int(launches.ts_ns_N[position])


class _Sparse:
    """A column in which few rows have a value."""

    def __init__(self, pairs: list[tuple[int, int]], otherwise: int) -> None:
        pairs = sorted(pairs)
        self._rows = np.array([row for row, _ in pairs], np.int64)
        # one more at the end, for rows after the last that has a value
        self._values = np.array([*(value for _, value in pairs), otherwise], np.int64)
        self._otherwise = otherwise

    def at(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Values of these rows."""
        positions = np.searchsorted(self._rows, rows)
        has_value = np.isin(rows, self._rows)
        return np.where(has_value, self._values[positions], self._otherwise)


def steps_at(windows: list[Window], ts_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Step each time belongs to: the one that began last; -1 before the first.

    What follows a step's end belongs to it too: kernels run on after the host has moved on.
    """
    starts = np.array([window.start_ns for window in windows], np.int64)
    steps = np.array([BEFORE_FIRST_STEP, *(window.step for window in windows)], np.int64)
    return steps[np.searchsorted(starts, ts_ns, side="right")]


def write_steps(sink: Sink, rank: int, windows: list[Window]) -> None:
    """A row of `steps` for each profiler step."""
    columns = {
        "rank": rank,
        "step": [window.step for window in windows],
        "start_ns": [window.start_ns for window in windows],
        "dur_ns": [window.dur_ns for window in windows],
    }
    if windows:
        sink.add_rows("steps", rank, rows("steps", len(windows), columns))


def write_collectives(
    sink: Sink, rank: int, instances: list[Instance], base_ns: int, windows: list[Window]
) -> None:
    """A row of `collectives` for each of these, and of `groups` for each group they name."""
    if not instances:
        return
    start_ns = np.array([instance.start_ns for instance in instances], np.int64) + base_ns
    columns = {
        "rank": rank,
        "step": steps_at(windows, start_ns),
        "group_id": [instance.group.group_id for instance in instances],
        "seq": [instance.seq for instance in instances],
        "op": [instance.op for instance in instances],
        "dtype": [instance.args.dtype for instance in instances],
        "num_bytes": [instance.args.num_bytes for instance in instances],
        "peer": [instance.peer for instance in instances],
        "enqueue_ns": [instance.enqueue_ns + base_ns for instance in instances],
        "start_ns": start_ns,
        "end_ns": [
            instance.end_ns + base_ns if instance.end_ns >= 0 else UNKNOWN for instance in instances
        ],
        "state": [instance.state for instance in instances],
        "source": _SOURCE,
    }
    sink.add_rows("collectives", rank, rows("collectives", len(instances), columns))
    write_groups(sink, rank, list(dict.fromkeys(instance.group for instance in instances)))


def write_memory(
    sink: Sink, rank: int, memory: MemoryEvents, base_ns: int, windows: list[Window]
) -> None:
    """A row of `memory` for each step, and a mark wherever memory ran out."""
    counters = memory.counters()
    if len(counters.ts_ns_M):
        counters = counters._replace(ts_ns_M=counters.ts_ns_M + base_ns)
        columns = memory_rows(counters, steps_at(windows, counters.ts_ns_M))
        sink.add_rows(
            "memory", rank, rows("memory", len(columns["step"]), {"rank": rank, **columns})
        )
    if memory.failures_ns:
        ts_ns = np.array(memory.failures_ns, np.int64) + base_ns
        marks = {"rank": rank, "ts_ns": ts_ns, "step": steps_at(windows, ts_ns)}
        failure = {"kind": "error", "text": "device memory ran out"}
        sink.add_rows("marks", rank, rows("marks", len(ts_ns), {**marks, **failure}))


def _track_names(tracks: list[tuple[Any, Any, str]]) -> list[str]:
    return [_track_name(pid, tid, kind) for pid, tid, kind in tracks]


def _track_name(pid: Any, tid: Any, kind: str) -> str:
    if kind == "cpu":
        # negative ids are the profiler's own rows; one trace is one process
        return f"thread {tid}" if str(pid).isdecimal() else f"{pid} {tid}"
    stream = str(tid).removeprefix("stream ")
    return f"GPU {pid} stream {stream}" + (" waits" if kind == "sync" else "")

"""Events of one torch.profiler (Kineto) file as compact columns: some 25 bytes an event.

Complete events (`ph` X) become rows; flows and memory instants are kept apart. What spans a
whole step or profile (ProfilerStep, PyTorch Profiler) and the copies of annotations on GPU rows
become none: they would cover gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ingest.readers.kineto.flows import Flows
from ingest.readers.kineto.memory import MemoryEvents
from ingest.readers.kineto.operations import Operators
from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS, Event
from ingest.readers.tables.torch_names import COMM_KERNEL, STEP_NAME, CommArgs, kind_of_annotation
from trace_hooks.schema import KINDS, UNKNOWN

KERNEL = frozenset({"kernel", "mtia_ccp_events", "hpu_op"})
"""On GPUs of NVIDIA, AMD and Intel, on MTIA, on Gaudi."""
OPERATOR = frozenset({"cpu_op", "operator"})
COPY = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
GPU_WAIT = frozenset({"cuda_sync"})
NO_SPANS = frozenset({"trace", "gpu_user_annotation", "cpu_instant_event"})

COMM_CALL = "record_param_comms"
COMM_ANNOTATION = re.compile(r"(nccl|gloo|ucc|mpi|hccl|xccl):(\w+)")

_COMM_KEY = b'"Collective name"'


_COMM_ARGS = msgspec.json.Decoder(CommArgs)


class _CopyArgs(msgspec.Struct, gc=False):
    bytes: int = UNKNOWN


_COPY_ARGS = msgspec.json.Decoder(_CopyArgs)


def _args(decoder: msgspec.json.Decoder[Any], event: Event, otherwise: Any) -> Any:
    try:
        return decoder.decode(event.args)
    except (ValueError, RecursionError):
        return otherwise


@dataclass(frozen=True)
class CommEvent:
    """A communication kernel, a call of record_param_comms or an annotation such as gloo:send."""

    row: int
    """row in the columns, -1 where it became none"""
    name: str
    ts_ns: int
    dur_ns: int
    args: CommArgs

    @property
    def end_ns(self) -> int:
        """When it was over."""
        return self.ts_ns + self.dur_ns


class Window(NamedTuple):
    """One profiler step as one row of the file shows it."""

    step: int
    start_ns: int
    dur_ns: int


class _Role(NamedTuple):
    """What becomes of the events of one (category, name)."""

    kind: int
    """index into KINDS, -1 no span"""
    track: int
    """index into TRACK_KINDS: rows of one pid and tid that must not share a track"""
    special: str
    """what else to do with them: step, gpu_step, kernel, copy, call, annotation or nothing"""
    is_operator: bool = False


TRACK_KINDS = ("cpu", "gpu", "sync")


class _Codes(dict[Any, int]):
    """Numbers keys in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


def _role(cat: str, name: str) -> _Role:
    host, cpu, gpu, sync = KINDS.index("host"), 0, 1, 2
    if STEP_NAME.fullmatch(name):
        return _Role(UNKNOWN, cpu, "gpu_step" if cat == "gpu_user_annotation" else "step")
    if cat in NO_SPANS:
        return _Role(UNKNOWN, cpu, "")
    if cat in KERNEL:
        return _Role(KINDS.index("kernel"), gpu, "kernel")
    if cat in COPY:
        return _Role(KINDS.index("memcpy"), gpu, "copy")
    if cat in GPU_WAIT:
        return _Role(host, sync, "")
    if name == COMM_CALL:
        return _Role(host, cpu, "call")
    if COMM_ANNOTATION.fullmatch(name):
        return _Role(host, cpu, "annotation")
    return _Role(KINDS.index(kind_of_annotation(name)), cpu, "", cat in OPERATOR)


class Columns:
    """All complete events of one file, and the few that need more than their columns."""

    def __init__(self) -> None:
        self.kernels: list[CommEvent] = []
        self.calls: list[CommEvent] = []
        self.annotations: list[CommEvent] = []
        self.steps: list[Window] = []
        self.gpu_steps: list[Window] = []
        self.copied_bytes: list[tuple[int, int]] = []
        """(row, bytes) of every copy whose size is known"""
        self.num_rows = 0
        self.num_without_time = 0
        self.extent_ns: tuple[int, int] | None = None
        """first begin and last end of anything, the profiler's own rows included"""
        self._labels: dict[tuple[str | None, str | None], int] = _Codes()  # (cat, name)
        self._threads: dict[tuple[Any, Any], int] = _Codes()  # (pid, tid)
        self.flows = Flows(self._threads)
        self.memory = MemoryEvents()
        self.operators = Operators()
        self._roles: list[_Role] = []  # by label
        self._used_tracks: set[int] = set()
        self._operator_threads: set[int] = set()
        self._pieces: tuple[list[npt.NDArray[Any]], ...] = ([], [], [], [], [])

    @property
    def names(self) -> list[str]:
        """Name by the codes of `joined`."""
        return [name or "" for _, name in self._labels]

    @property
    def tracks(self) -> list[tuple[Any, Any, str]]:
        """(pid, tid, one of TRACK_KINDS) by the codes of `joined`."""
        return [(pid, tid, kind) for pid, tid in self._threads for kind in TRACK_KINDS]

    def first_alike(self) -> npt.NDArray[np.int64]:
        """Number of each thread, or of the first one that reads the same: some files write a number
        as text, but not in flows.
        """
        first: dict[tuple[str, str], int] = {}
        alike = [
            first.setdefault((str(pid), str(tid)), number)
            for number, (pid, tid) in enumerate(self._threads)
        ]
        return np.array(alike, np.int64)

    def processes(self) -> set[Any]:
        """Processes whose operators the file shows: one, where PyTorch wrote it."""
        threads = list(self._threads)
        return {threads[thread][0] for thread in self._operator_threads}

    def gpus(self) -> set[Any]:
        """Numbers of the GPUs whose rows the file shows."""
        tracks = self.tracks
        return {tracks[i][0] for i in self._used_tracks if tracks[i][2] == "gpu"}

    def add(self, batch: Sequence[Event]) -> None:
        """Take one batch of events."""
        events = [event for event in batch if event.ph == "X"]
        if len(events) < len(batch):
            others = [event for event in batch if event.ph != "X"]
            self.flows.add(others)
            self.memory.add(others)
        if not events:
            return
        labels, threads = self._labels, self._threads
        label = np.array([labels[event.cat, event.name] for event in events], np.int32)
        thread = np.array([threads[event.pid, event.tid] for event in events], np.int32)
        ts_ns, readable = microseconds_to_ns([event.ts for event in events])
        dur_ns, has_dur = microseconds_to_ns([event.dur for event in events])
        readable &= has_dur & (np.abs(ts_ns) < MAX_NS) & (dur_ns < MAX_NS)
        self.num_without_time += int((~readable).sum())
        np.maximum(dur_ns, 0, out=dur_ns)
        self._widen(ts_ns[readable], dur_ns[readable])
        self._learn(events, label)
        kind = np.array([role.kind for role in self._roles], np.int8)[label]
        track_kind = np.array([role.track for role in self._roles], np.int32)[label]
        special = np.array([bool(role.special) for role in self._roles])[label]
        kept = readable & (kind >= 0)
        row = np.where(kept, np.cumsum(kept) - 1 + self.num_rows, UNKNOWN)
        track = thread * len(TRACK_KINDS) + track_kind
        columns: tuple[npt.NDArray[Any], ...] = (ts_ns, dur_ns, kind, label, track)
        for pieces, column in zip(self._pieces, columns, strict=True):
            pieces.append(column[kept])
        self._used_tracks.update(np.unique(track[kept]).tolist())
        is_operator = np.array([role.is_operator for role in self._roles])[label]
        self._operator_threads.update(np.unique(thread[kept & is_operator]).tolist())
        for i in np.flatnonzero(kept & is_operator).tolist():
            self.operators.add(int(row[i]), events[i])
        self.num_rows += int(kept.sum())
        for i in np.flatnonzero(special & readable).tolist():
            role = self._roles[label[i]]
            self._note(role.special, events[i], int(row[i]), int(ts_ns[i]), int(dur_ns[i]))

    def _widen(self, ts_ns: npt.NDArray[np.int64], dur_ns: npt.NDArray[np.int64]) -> None:
        if len(ts_ns):
            begin_ns, end_ns = int(ts_ns.min()), int((ts_ns + dur_ns).max())
            known = self.extent_ns or (begin_ns, end_ns)
            self.extent_ns = min(begin_ns, known[0]), max(end_ns, known[1])

    def _learn(self, events: Sequence[Event], label: npt.NDArray[np.int32]) -> None:
        """Decide what becomes of the labels seen for the first time."""
        known = len(self._roles)
        for cat, name in list(self._labels)[known:]:
            role = _role((cat or "").lower(), name or "")
            if role.special == "kernel" and not COMM_KERNEL.match(name or ""):
                # no name of a library that communicates: its first kernel decides
                first = events[int(np.argmax(label == len(self._roles)))]
                role = role if _COMM_KEY in bytes(first.args) else role._replace(special="")
            self._roles.append(role)

    def _note(self, special: str, event: Event, row: int, ts_ns: int, dur_ns: int) -> None:
        name = event.name or ""
        if special in ("kernel", "call"):
            has_metadata = _COMM_KEY in bytes(event.args)
            args = _args(_COMM_ARGS, event, CommArgs()) if has_metadata else CommArgs()
            events = self.kernels if special == "kernel" else self.calls
            events.append(CommEvent(row, name, ts_ns, dur_ns, args))
        elif special == "copy":
            num_bytes = _args(_COPY_ARGS, event, _CopyArgs()).bytes
            if 0 <= num_bytes < MAX_COUNT:
                self.copied_bytes.append((row, num_bytes))
        elif special == "annotation":
            self.annotations.append(CommEvent(row, name, ts_ns, dur_ns, CommArgs()))
        elif match := STEP_NAME.fullmatch(name):
            window = Window(int(match[1]), ts_ns, dur_ns)
            (self.steps if special == "step" else self.gpu_steps).append(window)

    def joined(self) -> Iterator[npt.NDArray[Any]]:
        """ts_ns, dur_ns, kind, name, track over all spans, given away: they can be had once."""
        kinds: Iterable[type] = (np.int64, np.int64, np.int8, np.int32, np.int32)
        for kind, pieces in zip(kinds, self._pieces, strict=True):
            whole = np.concatenate([np.empty(0, kind), *pieces])
            pieces.clear()
            yield whole

    def step_windows(self) -> list[Window]:
        """Each profiler step once, by start; from GPU rows only where no CPU row shows any."""
        windows: dict[int, Window] = {}
        for window in sorted(self.steps or self.gpu_steps, key=lambda w: w.start_ns):
            windows.setdefault(window.step, window)
        return sorted(windows.values(), key=lambda window: window.start_ns)

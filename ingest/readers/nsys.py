"""Nsight Systems reports exported to SQLite: the GPU work, CUDA calls and NVTX ranges in them.

Format: https://docs.nvidia.com/nsight-systems/UserGuide (SQLite schema reference). One report holds
several processes and GPUs; every process with work on a GPU becomes a rank.
"""

from __future__ import annotations

import re
from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.sqlite_file import Database
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.gpu_profile import Profile, are_times, is_database, read_profile
from ingest.readers.tables.process_ranks import Processes
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.torch_names import COMM_KERNEL, kind_of_annotation
from trace_hooks.schema import UNKNOWN

FORMAT = Format("nsys", "Nsight Systems")

_KERNELS, _COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
_SETS, _WAITS = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_CALLS, _RANGES, _TEXTS = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_START, _DETAILS = "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS"
_OWN_TABLES = (_KERNELS, _COPIES, _CALLS, _RANGES, _START)
_COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_RANGE_TYPES = (59, 60, 70, 71)  # push-pop, start-end, and both with a domain's payload
_NUMBERS_BEHIND = re.compile(r"(?:, (?:seq|op_id|sizes) = .*)$")
_STEP = re.compile(r"(?:ProfilerStep#|step|iteration|iter)[ _#:=]*(\d{1,15})", re.IGNORECASE)
_PID = 0xFFFFFF


def recognises(source: Source) -> bool:
    """Whether it is a SQLite database with tables of Nsight Systems."""
    return is_database(
        source,
        in_head=lambda head: any(table.encode() in head for table in _OWN_TABLES),
        in_tables=lambda database: any(database.has(table) for table in _OWN_TABLES),
    )


def read(source: Source, staged: StagedRows) -> Processes | None:
    """Read one report."""
    return read_profile(source, staged, _Report, "no GPU work, CUDA call or NVTX range")


class Import:
    """One import of any number of reports, one after another."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._num_ranks = 0
        self._clocks: set[str] = set()

    def add_file(self, processes: Processes) -> None:
        """Write one report."""
        first = self._num_ranks
        self._num_ranks += len(processes.ranks())
        self._clocks.add("absolute" if processes.base_ns else "unknown")
        self._sink.set_clock("absolute" if self._clocks == {"absolute"} else "unknown")
        processes.write(self._sink, first, _pid_of)

    def finish(self) -> None:
        """Every report was written when it was taken."""


class _Report(Profile):
    def __init__(self, database: Database, processes: Processes) -> None:
        super().__init__(database, processes)
        self._num_open = 0

    def read(self) -> None:
        """Read all of it."""
        self._read_start()
        has_texts = self.read_texts(_TEXTS, "id", "value")
        self._read_gpu()
        self._read_calls()
        self._read_ranges()
        self.tell_bad_rows()
        if not has_texts and self.processes.ranks():
            self.problems.append("has no names: its table StringIds is missing or empty")
        if self._num_open:
            self.problems.append(f"{self._num_open:,} NVTX ranges that never end left out")

    def _read_start(self) -> None:
        """Unix time of the capture's start, from which the report's times count."""
        utc_ns = next(self.rows(_START, "utcEpochNs"), (None,))[0]
        start_ns = next(self.rows(_DETAILS, "startTime"), (0,))[0]
        if type(utc_ns) is int and type(start_ns) is int and 0 < utc_ns - start_ns < MAX_NS:
            self.processes.base_ns = utc_ns - start_ns
        for name, value in self.rows("TARGET_INFO_SYSTEM_ENV", "name", "value"):
            if name == "Hostname" and value:
                self.processes.host = str(value)[:256]

    def _read_gpu(self) -> None:
        columns = ("start", "end", "globalPid", "deviceId", "streamId")
        for *where, short, long in self.rows(_KERNELS, *columns, "shortName", "demangledName"):
            name = self.text(short) or self.text(long) or "kernel"
            kind = "other_comm" if COMM_KERNEL.match(name) else "kernel"
            self._on_gpu(where, kind, name)
        for *where, num_bytes, copy in self.rows(_COPIES, *columns, "bytes", "copyKind"):
            self._on_gpu(where, "memcpy", f"Memcpy {_COPY_KINDS.get(copy, '')}".rstrip(), num_bytes)
        for *where, num_bytes in self.rows(_SETS, *columns, "bytes"):
            self._on_gpu(where, "memcpy", "Memset", num_bytes)
        for *where, graph in self.rows(_GRAPHS, *columns, "graphId"):
            self._on_gpu(where, "kernel", f"CUDA graph {graph}")
        for *where, _ in self.rows(_WAITS, *columns, "syncType"):
            self._on_gpu(where, "host", "Stream Sync", suffix=" waits")

    def _on_gpu(
        self, where: list[Any], kind: str, name: str, num_bytes: Any = None, suffix: str = ""
    ) -> None:
        start_ns, end_ns, process, gpu, stream = where
        if not are_times(start_ns, end_ns) or type(gpu) is not int:
            self.processes.num_bad += 1
            return
        process = process if type(process) is int else ("GPU", gpu)
        size = num_bytes if type(num_bytes) is int else UNKNOWN
        track = f"GPU {gpu} stream {stream}{suffix}"
        spans = self.processes.of(process)
        spans.add(start_ns, end_ns - start_ns, kind, name, track, num_bytes=size)
        self.processes.uses_gpu(process, gpu)

    def _read_calls(self) -> None:
        for start_ns, end_ns, thread, name in self.rows(
            _CALLS, "start", "end", "globalTid", "nameId"
        ):
            if not are_times(start_ns, end_ns) or type(thread) is not int:
                self.processes.num_bad += 1
                continue
            spans = self.processes.of(_process_of(thread))
            text = self.text(name) or "CUDA call"
            spans.add(start_ns, end_ns - start_ns, "host", text, f"thread {thread & _PID} CUDA")

    def _read_ranges(self) -> None:
        columns = ("start", "end", "eventType", "globalTid", "text", "textId")
        for start_ns, end_ns, kind, thread, text, text_id in self.rows(_RANGES, *columns):
            if kind not in _RANGE_TYPES:
                continue  # marks, names of threads and categories
            if end_ns is None:
                self._num_open += 1
                continue
            if not are_times(start_ns, end_ns) or type(thread) is not int:
                self.processes.num_bad += 1
                continue
            name = _NUMBERS_BEHIND.sub("", str(text) if text else self.text(text_id)) or "range"
            process = _process_of(thread)
            step = _STEP.fullmatch(name)
            if step:
                self.processes.add_step(process, int(step[1]), start_ns, end_ns)
                continue
            spans = self.processes.of(process)
            track = f"thread {thread & _PID}"
            spans.add(start_ns, end_ns - start_ns, kind_of_annotation(name), name, track)


def _process_of(thread: int) -> int:
    """globalPid of a globalTid: the thread's own number stands in the lowest 24 bits."""
    return thread & ~_PID


def _pid_of(process: object) -> int:
    return process >> 24 & _PID if isinstance(process, int) else UNKNOWN

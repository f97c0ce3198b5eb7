"""rocmProfileData databases (.rpd): work on AMD GPUs and the HIP calls of one or more processes.

Format: https://github.com/ROCm/rocmProfileData (rocpd_python/rocpd/schema). Times are nanoseconds
since the host was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.readers import Sink
from ingest.readers.inputs import Source
from ingest.readers.kineto_events import COMM_KERNEL
from ingest.readers.limits import limits
from ingest.readers.processes import Processes
from ingest.readers.shelf import Shelf
from ingest.readers.sqlite_file import MAGIC, Database, Unreadable
from ingest.readers.trace_events import MAX_NS
from ingest.readers.whole import TooLarge, on_disk
from trace_hooks.schema import UNKNOWN

NAME = "rocpd"

_OPS, _CALLS, _TEXTS = "rocpd_op", "rocpd_api", "rocpd_string"
_CALLS_OF_OPS, _COPIES = "rocpd_api_ops", "rocpd_copyapi"


def recognises(source: Source) -> bool:
    """Whether it is a SQLite database with the tables of rocmProfileData."""
    if not source.head.startswith(MAGIC):
        return False
    words = [f'"{table}"'.encode() for table in (_OPS, _TEXTS)]
    if all(word in source.head for word in words):
        return True
    if source.path is None:
        return False
    try:
        with Database(source.path) as database:
            return database.has(_OPS, _TEXTS)
    except Unreadable:
        return False


def read(source: Source, shelf: Shelf) -> Processes | None:
    """Read one database."""
    processes = Processes(source.name)
    try:
        with on_disk(source) as path, Database(path) as database:
            profile = _Profile(database, processes)
            profile.read()
    except (Unreadable, TooLarge) as error:
        shelf.add_problem(f"{source.name}: {error}")
        return None
    for problem in (*source.damages(), *profile.problems):
        shelf.add_problem(f"{source.name}: {problem}")
    if not processes.ranks():
        shelf.add_problem(f"{source.name}: holds no GPU work and no call")
        return None
    return processes


class Reading:
    """One import of any number of databases."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._num_ranks = 0

    def take(self, processes: Processes) -> None:
        """Write one database."""
        first = self._num_ranks
        self._num_ranks += len(processes.ranks())
        self._sink.set_clock("unknown")
        processes.write(self._sink, first, lambda pid: pid if isinstance(pid, int) else UNKNOWN)

    def finish(self) -> None:
        """Every database was written when it was taken."""


class _Profile:
    """One database, read table by table."""

    def __init__(self, database: Database, processes: Processes) -> None:
        self.processes = processes
        self.problems: list[str] = [database.damage] if database.damage else []
        self._database = database
        self._texts: dict[int, str] = {}

    def read(self) -> None:
        """Read all of it."""
        for number, text in self._rows(_TEXTS, "id", "string"):
            if isinstance(number, int) and len(self._texts) < limits().max_rows:
                self._texts[number] = str(text)
        pid_of_call = self._read_calls()
        call_of_op = dict(self._rows(_CALLS_OF_OPS, "op_id", "api_id"))
        sizes = dict(self._rows(_COPIES, "api_ptr_id", "size"))
        only = set(pid_of_call.values())
        otherwise: object = only.pop() if len(only) == 1 else "process unknown"
        columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        for op, gpu, queue, start_ns, end_ns, description, kind in self._rows(_OPS, *columns):
            if not _are_times(start_ns, end_ns) or type(gpu) is not int:
                self.processes.num_bad += 1
                continue
            call = call_of_op.get(op)
            process = pid_of_call.get(call, otherwise)
            size = sizes.get(call) if call is not None else None
            self._add_op(process, gpu, queue, start_ns, end_ns, description, kind, size)
        bad = self.processes.num_bad
        bad += sum(self.processes.of(p).num_refused for p in self.processes.ranks())
        if bad:
            self.problems.append(f"{bad:,} rows without usable times left out")

    def _add_op(
        self,
        process: Any,
        gpu: int,
        queue: object,
        start_ns: int,
        end_ns: int,
        description: object,
        kind_id: object,
        size: object,
    ) -> None:
        kind_name = self._text(kind_id)
        name = self._text(description) or kind_name or "operation"
        kind = "kernel"
        if kind_name.startswith(("Copy", "Fill")):
            kind = "memcpy"
        elif COMM_KERNEL.match(name):
            kind = "other_comm"
        self.processes.of(process).add(
            start_ns,
            end_ns - start_ns,
            kind,
            name,
            f"GPU {gpu} stream {queue}",
            num_bytes=size if type(size) is int and kind == "memcpy" else UNKNOWN,
        )
        self.processes.uses_gpu(process, gpu)

    def _read_calls(self) -> dict[Any, Any]:
        """Spans of the calls; returns the process of each."""
        pid_of_call = {}
        columns = ("id", "pid", "tid", "start", "end", "apiName_id")
        for call, pid, tid, start_ns, end_ns, name in self._rows(_CALLS, *columns):
            if not _are_times(start_ns, end_ns) or type(pid) is not int:
                self.processes.num_bad += 1
                continue
            pid_of_call[call] = pid
            text = self._text(name) or "call"
            spans = self.processes.of(pid)
            spans.add(start_ns, end_ns - start_ns, "host", text, f"thread {tid}")
        return pid_of_call

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        if not self._database.has(table):
            return
        try:
            if lacks := self._database.lacks(table, columns):
                self.problems.append(lacks)
            yield from self._database.rows(table, columns)
        except Unreadable as error:
            self.problems.append(str(error))

    def _text(self, number: object) -> str:
        return self._texts.get(number, "") if isinstance(number, int) else ""


def _are_times(start_ns: object, end_ns: object) -> bool:
    """Whether both are times a span can have."""
    if type(start_ns) is not int or type(end_ns) is not int:
        return False
    return abs(start_ns) < MAX_NS and abs(end_ns) < MAX_NS

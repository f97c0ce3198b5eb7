"""rocmProfileData databases (.rpd): work on AMD GPUs and the HIP calls of one or more processes.

Format: https://github.com/ROCm/rocmProfileData (rocpd_python/rocpd/schema). Times are nanoseconds
since the host was started.
"""

from __future__ import annotations

from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.gpu_profile import Profile, are_times, is_database, read_profile
from ingest.readers.tables.process_ranks import Processes
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.torch_names import COMM_KERNEL
from trace_hooks.schema import UNKNOWN

FORMAT = Format("rocpd", "rocmProfileData")

_OPS, _CALLS, _TEXTS = "rocpd_op", "rocpd_api", "rocpd_string"
_CALLS_OF_OPS, _COPIES = "rocpd_api_ops", "rocpd_copyapi"


def recognises(source: Source) -> bool:
    """Whether it is a SQLite database with the tables of rocmProfileData."""
    words = [f'"{table}"'.encode() for table in (_OPS, _TEXTS)]
    return is_database(
        source,
        in_head=lambda head: all(word in head for word in words),
        in_tables=lambda database: database.has(_OPS, _TEXTS),
    )


def read(source: Source, staged: StagedRows) -> Processes | None:
    """Read one database."""
    return read_profile(source, staged, _Profile, "no GPU work and no call")


class Import:
    """One import of any number of databases."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._num_ranks = 0

    def add_file(self, processes: Processes) -> None:
        """Write one database."""
        first = self._num_ranks
        self._num_ranks += len(processes.ranks())
        self._sink.set_clock("unknown")
        processes.write(self._sink, first, lambda pid: pid if isinstance(pid, int) else UNKNOWN)

    def finish(self) -> None:
        """Every database was written when it was taken."""


class _Profile(Profile):
    def read(self) -> None:
        """Read all of it."""
        self.read_texts(_TEXTS, "id", "string")
        pid_of_call = self._read_calls()
        call_of_op = dict(self.rows(_CALLS_OF_OPS, "op_id", "api_id"))
        sizes = dict(self.rows(_COPIES, "api_ptr_id", "size"))
        only = set(pid_of_call.values())
        otherwise: object = only.pop() if len(only) == 1 else "process unknown"
        columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        for op, gpu, queue, start_ns, end_ns, description, kind in self.rows(_OPS, *columns):
            if not are_times(start_ns, end_ns) or type(gpu) is not int:
                self.processes.num_bad += 1
                continue
            call = call_of_op.get(op)
            process = pid_of_call.get(call, otherwise)
            size = sizes.get(call) if call is not None else None
            self._add_op(process, gpu, queue, start_ns, end_ns, description, kind, size)
        self.tell_bad_rows()

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
        kind_name = self.text(kind_id)
        name = self.text(description) or kind_name or "operation"
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
        for call, pid, tid, start_ns, end_ns, name in self.rows(_CALLS, *columns):
            if not are_times(start_ns, end_ns) or type(pid) is not int:
                self.processes.num_bad += 1
                continue
            pid_of_call[call] = pid
            text = self.text(name) or "call"
            spans = self.processes.of(pid)
            spans.add(start_ns, end_ns - start_ns, "host", text, f"thread {tid}")
        return pid_of_call

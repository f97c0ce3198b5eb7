"""The processes of this host's ranks: CPU time, waiting for a core, faults, memory, disks.

Only own processes can be read in full. /proc/PID/schedstat and the switches in /proc/PID/status
are those of the main thread, which trains. Source: proc(5), Linux' scheduler/sched-stats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from trace_hooks.telemetry.names import PROCESS
from trace_hooks.telemetry.reading import NAN, OpenFile, Reading, Source, number_after, reason_of

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STOPPED = (b"T", b"t")
_RARELY = 30
"""Readings from one look at what is written once a minute to the next."""


class _Process:
    """Open files of one rank's process."""

    def __init__(self, folder: Path) -> None:
        self.stat, self.schedstat = OpenFile(folder / "stat"), OpenFile(folder / "schedstat")
        self.status, self.io = OpenFile(folder / "status"), OpenFile(folder / "io")
        self.num_reads = 0

    def close(self) -> None:
        for file in (self.stat, self.schedstat, self.status, self.io):
            file.close()


class Processes(Source):
    """Ranks of this host; `ranks_of` gives (rank, pid) of those that run now."""

    name = "processes"
    every_s = 2.0

    def __init__(
        self, ranks_of: Callable[[], Sequence[tuple[int, int]]], proc: Path = Path("/proc")
    ) -> None:
        self._ranks_of, self._proc = ranks_of, proc
        self._open: dict[tuple[int, int], _Process] = {}

    def read(self) -> Iterator[Reading]:
        """Figures of every rank; a process that ends meanwhile has none."""
        ranks = set(self._ranks_of())
        for gone in self._open.keys() - ranks:
            self._open.pop(gone).close()
        for rank, pid in sorted(ranks):
            process = self._open.get((rank, pid))
            if process is None:
                process = self._open[rank, pid] = _Process(self._proc / str(pid))
            with suppress(ProcessLookupError, FileNotFoundError):
                yield from _of_stat(rank, process.stat.read())
                yield _waited(rank, process)
                if process.num_reads % _RARELY == 0:
                    yield from _rarely(rank, process)
                process.num_reads += 1


def _of_stat(rank: int, data: bytes) -> Iterator[Reading]:
    fields = data[data.rindex(b")") + 2 :].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    yield Reading(PROCESS, "process_cpu_seconds_total", cpu_s, rank=rank)
    yield Reading(PROCESS, "process_stopped", float(fields[0] in _STOPPED), rank=rank)
    yield Reading(PROCESS, "process_major_faults_total", int(fields[9]), rank=rank)
    yield Reading(PROCESS, "process_threads", int(fields[17]), rank=rank)
    yield Reading(PROCESS, "process_resident_bytes", int(fields[21]) * _PAGE_BYTES, rank=rank)


def _waited(rank: int, process: _Process) -> Reading:
    metric = "process_wait_seconds_total"
    try:
        return Reading(PROCESS, metric, int(process.schedstat.read().split()[1]) / 1e9, rank=rank)
    except FileNotFoundError as error:  # a kernel without it
        return Reading(PROCESS, metric, NAN, reason_of(error), rank)


def _rarely(rank: int, process: _Process) -> Iterator[Reading]:
    switches = number_after(process.status.read(), b"\nnonvoluntary_ctxt_switches:")
    yield Reading(PROCESS, "process_involuntary_switches_total", switches, rank=rank)
    names = ("process_read_bytes_total", "process_written_bytes_total")
    try:
        data = process.io.read()
    except PermissionError as error:
        for name in names:
            yield Reading(PROCESS, name, NAN, reason_of(error), rank)
        return
    for name, key in zip(names, (b"\nread_bytes: ", b"\nwrite_bytes: "), strict=True):
        yield Reading(PROCESS, name, number_after(data, key), rank=rank)

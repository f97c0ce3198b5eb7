"""Processes of one database as ranks: spans of each, numbered when the file has been read."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ingest.readers.base import Sink
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import SpanList, write_steps
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

Window = tuple[int, int, int]


class Processes:
    """Spans and steps by process, whose order becomes the order of ranks.

    `base_ns` is the Unix time from which those of the file count, 0 where that is not known.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.base_ns = 0
        self.host = ""
        self.num_bad = 0
        self._spans: dict[Hashable, SpanList] = {}
        self._windows: dict[Hashable, dict[int, Window]] = {}
        self._gpus: dict[Hashable, int] = {}

    def of(self, process: Hashable) -> SpanList:
        """Spans of a process."""
        return self._spans.setdefault(process, SpanList())

    def uses_gpu(self, process: Hashable, gpu: int) -> None:
        """A process has work on a GPU: only such processes become ranks, where any has."""
        self._gpus[process] = min(gpu, self._gpus.get(process, gpu))

    def add_step(self, process: Hashable, step: int, begin_ns: int, end_ns: int) -> None:
        """A range that is one step."""
        self._windows.setdefault(process, {}).setdefault(step, (step, begin_ns, end_ns))

    def ranks(self) -> list[Hashable]:
        """Processes in the order of their GPU; all that have spans where none uses one."""
        if self._gpus:
            return sorted(self._gpus, key=lambda process: (self._gpus[process], str(process)))
        return sorted((p for p, spans in self._spans.items() if len(spans)), key=str)

    def write(self, sink: Sink, first_rank: int, pid_of: Callable[[Hashable], int]) -> None:
        """Write every rank, `first_rank` being the first, and report that they are guessed."""
        base_ns, last_rank = self.base_ns, first_rank + len(self.ranks()) - 1
        alone = last_rank == first_rank
        shown = f"rank {first_rank}" if alone else f"ranks {first_rank} to {last_rank}"
        sink.add_guess(
            f"{self.name} names no ranks: its processes are shown as {shown}, by their GPU"
        )
        for rank, process in enumerate(self.ranks(), first_rank):
            spans = self.of(process)
            windows = sorted(self._windows.get(process, {}).values(), key=lambda w: w[1])
            spans.fill_steps(windows)
            spans.shift(base_ns)
            begin_ns, end_ns = spans.extent()
            gpu = self._gpus.get(process, UNKNOWN)
            info = rank_info(
                rank,
                host=self.host,
                pid=pid_of(process),
                device=f"GPU {gpu}" if gpu >= 0 else "",
                started_ns=begin_ns,
                ended_ns=end_ns,
            )
            sink.add_rank(info)
            write_steps(sink, rank, [(s, b + base_ns, e + base_ns) for s, b, e in windows])
            spans.write(sink, rank)
            add_imported_clock(sink, rank, begin_ns)

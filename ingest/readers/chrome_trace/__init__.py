"""Chrome traces in JSON that no reader of a special format knows, as far as they can be understood.

Format: the Trace Event Format of Chrome; ts and dur are microseconds. A process whose name holds
`rank N` is that rank (so are the processes of rankscope's own export); otherwise a file is one rank
and its processes are parts of the names of tracks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.chrome_trace.file import ChromeFile, read_file
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import write_steps
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock, named_rank
from trace_hooks.schema import UNKNOWN

FORMAT = Format("chrome_trace", "Chrome trace", is_generic=True)

_EVENT = re.compile(rb'"ph"\s*:\s*"[BEXibenCMstfR]"')
_YEAR_2001_NS = 10**18


def recognises(source: Source) -> bool:
    """Whether it is a list of events, bare or inside an object."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"{" and b'"traceEvents"' not in head:
        return False
    return head[:1] in (b"[", b"{") and bool(_EVENT.search(head))


def read(source: Source, staged: StagedRows) -> ChromeFile:
    """Read one file."""
    return read_file(source, staged)


class Import:
    """One import: files of one rank each, or of several that their processes name."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._names: dict[int, str] = {}
        self._waiting: list[ChromeFile] = []
        self._clocks: set[str] = set()
        self._dropped: dict[str, int] = defaultdict(int)

    def add_file(self, file: ChromeFile) -> None:
        """One file."""
        for what, number in file.dropped.items():
            self._dropped[what] += number
        ranks = file.ranks()
        if not len(file.spans):
            self._sink.add_problem(f"{file.name}: no span could be read")
        elif ranks is None and named_rank(file.name) is None:
            self._waiting.append(file)
        else:
            self._take(file, ranks)

    def finish(self) -> None:
        """Give the files without a rank one, and report what was not read."""
        for file in self._waiting:
            rank = next(r for r in range(len(self._names) + 1) if r not in self._names)
            self._sink.add_guess(f"{file.name} names no rank: shown as rank {rank}")
            self._write(file, rank, list(file.pids), is_named=False)
        if self._dropped:
            dropped = ", ".join(f"{n:,} {what}" for what, n in sorted(self._dropped.items()))
            self._sink.add_guess(f"not read: {dropped}, which are not spans")

    def _take(self, file: ChromeFile, ranks: dict[Any, int] | None) -> None:
        rank = named_rank(file.name)
        if ranks is None and rank is not None:
            self._sink.add_guess(f"{file.name}: rank {rank} is taken from the name of the file")
            self._write(file, rank, list(file.pids))
            return
        pids_of: dict[int, list[Any]] = defaultdict(list)
        for pid, own_rank in (ranks or {}).items():
            pids_of[own_rank].append(pid)
        nameless = file.pids_of_spans - (ranks or {}).keys()
        if nameless:
            self._sink.add_problem(
                f"{file.name}: its processes name their ranks, but {len(nameless)} do not, which "
                "are left out"
            )
        for own_rank, pids in pids_of.items():
            self._write(file, own_rank, pids)

    def _write(self, file: ChromeFile, rank: int, pids: list[Any], is_named: bool = True) -> None:
        if rank in self._names:
            self._sink.add_problem(same_rank(file.name, rank, self._names[rank]))
            return
        spans = file.spans.part(lambda track: track[0] in pids)
        windows = file.windows(pids)
        spans.shift(file.base_ns)
        spans.fill_steps(windows)
        begin_ns, end_ns = spans.extent()
        is_absolute = bool(file.base_ns) or begin_ns > _YEAR_2001_NS
        self._sink.add_rank(rank_info(rank, started_ns=begin_ns, ended_ns=end_ns))
        self._names[rank] = file.name
        self._clocks.add("absolute" if is_absolute else "unknown")
        self._sink.set_clock("absolute" if self._clocks == {"absolute"} else "unknown")
        self._sink.count_events(rank if is_named else UNKNOWN, sum(file.pids[pid] for pid in pids))
        write_steps(self._sink, rank, windows)
        alone = sum(pid in file.pids_of_spans for pid in pids) == 1
        spans.write(self._sink, rank, label=lambda track: file.label(track[0], track[1], alone))
        add_imported_clock(self._sink, rank, begin_ns)

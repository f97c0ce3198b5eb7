"""torch.profiler (Kineto) traces: JSON, gzipped or not, one file per rank.

Format: https://github.com/pytorch/kineto and the files PyTorch 1.8 to 2.13 write. Times are
microseconds with three decimals whatever displayTimeUnit is, relative to baseTimeNanoseconds
where that stands in the file.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.kineto.events import Window
from ingest.readers.kineto.file import BLOCK_NS, FileTrace, Written, read_file, write_file
from ingest.readers.kineto.numbers import Stretches, count_from
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.schema import UNKNOWN

FORMAT = Format("kineto", "torch.profiler (Kineto)", is_previewable=True, has_own_clocks=True)

_OWN_KEYS = re.compile(
    rb'"(?:deviceProperties|distributedInfo|baseTimeNanoseconds|schemaVersion)"\s*:'
)
_OWN_CATEGORIES = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|gpu_user_annotation|cuda_runtime|cuda_driver|kernel|'
    rb'gpu_memcpy|gpu_memset|python_function|ac2g|Operator|Runtime|Kernel|Memcpy|Memset)"'
)
_OWN_EXPORT = re.compile(rb'"t0_ns"\s*:')
_EXPORT_SAYS_SO_IN = 4096
_EVENT = re.compile(rb'"ph"\s*:\s*"')
_NAMED_RANK = re.compile(
    rb'(?:"process_name"[^{}]{0,200}\{\s{0,9}"name"|"pid")\s{0,9}:\s{0,9}"[^"]{0,200}?'
    rb"\brank[ _-]?(\d{1,7})(?!\d)",
    re.IGNORECASE,
)


def recognises(source: Source) -> bool:
    """Whether it is a Chrome trace that PyTorch's profiler wrote."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        return bool(_OWN_CATEGORIES.search(head)) and bool(_EVENT.search(head))
    if head[:1] != b"{":
        return False
    if _OWN_EXPORT.search(head, 0, _EXPORT_SAYS_SO_IN):
        return False  # rankscope's export of such a run has kernels, too
    if len(set(_NAMED_RANK.findall(head))) > 1:
        return False  # merged from files of several ranks, which its processes name
    has_events = b'"traceEvents"' in head
    if has_events and (_OWN_KEYS.search(head) or _OWN_CATEGORIES.search(head)):
        return True
    # a long header before the events
    return b'"schemaVersion"' in head and b'"deviceProperties"' in head


_Found = tuple[Written, StagedRows] | FileTrace


def read(source: Source, staged: StagedRows) -> _Found | None:
    """Read one file; its rows are staged apart where it has its rank and times."""
    trace = read_file(source, staged)
    if trace is None or trace.rank is None or trace.lost_its_base:
        return trace
    rows = staged.another()
    rows.count_events(trace.rank, trace.num_elements)
    return write_file(trace, trace.rank, rows), rows


class Import:
    """One import of any number of files. Those that name no rank wait for the ranks left over,
    those that lost their base time for that of others.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: list[FileTrace] = []
        self._names: dict[int, str] = {}
        self._windows: dict[int, list[Window]] = {}
        self._layouts: set[str] = set()
        self._clocks: set[str] = set()
        self._assumed: set[tuple[int, ...]] = set()
        self._other: Written | None = None  # one with a base time
        self._world_size = UNKNOWN
        self._stretches = Stretches()

    def add_file(self, file: _Found) -> None:
        """One file; of several that say they are one rank, those that show other steps."""
        if isinstance(file, FileTrace):
            self._waiting.append(file)
            return
        written, rows = file
        if not self._is_new(written.name, written.rank, written.windows):
            rows.drop()
            return
        first_number = self._stretches.first_number(written.rank, written.windows)
        if first_number:
            count_from(first_number, rows, written.counted_groups)
        rows.give_to(self._sink)
        self._learn(written)

    def _is_new(self, name: str, rank: int, windows: list[Window]) -> bool:
        """Whether a file shows steps that no earlier one of its rank does; adds a problem or guess
        where there is an earlier one.
        """
        earlier = self._names.get(rank)
        if earlier is None:
            return True
        is_new = _apart(self._windows[rank], windows)
        if is_new:
            self._sink.add_guess(
                f"{name}: has other steps of the same rank {rank} as {earlier}; both are used"
            )
        else:
            self._sink.add_problem(same_rank(name, rank, earlier))
        return is_new

    def finish(self) -> None:
        """Write the files that wait, those with a rank first, and report what no file has."""
        for trace in sorted(self._waiting, key=lambda one: one.rank is None):
            self._place(self._based(trace) if trace.lost_its_base else trace)
        self._note_assumptions()

    def _based(self, trace: FileTrace) -> FileTrace:
        """With the base time with which it begins next to another file: a job may have two."""
        if self._other is None:
            return trace
        begin_ns, _ = trace.extent_ns
        base_ns, started_ns = self._other.base_ns, self._other.started_ns
        num_blocks = round((started_ns - base_ns - begin_ns) / BLOCK_NS)
        self._sink.add_guess(
            f"{trace.name}: its base time was cut off with the end of the file; it is assumed to "
            f"have begun when {self._other.name} did"
        )
        return replace(trace, base_ns=base_ns + num_blocks * BLOCK_NS)

    def _place(self, trace: FileTrace) -> None:
        rank = trace.rank
        if rank is None:
            rank = next(r for r in range(len(self._names) + 1) if r not in self._names)
            self._sink.add_guess(
                f"{trace.name} names no rank, neither inside nor in its name: shown as rank {rank}"
            )
        elif not self._is_new(trace.name, rank, trace.windows):
            return
        self._sink.count_events(UNKNOWN if trace.rank is None else rank, trace.num_elements)
        first_number = self._stretches.first_number(rank, trace.windows)
        self._learn(write_file(trace, rank, self._sink, first_number))

    def _note_assumptions(self) -> None:
        if self._layouts == {""} and max(self._world_size, len(self._names)) > 1:
            self._sink.add_guess(
                "the parallel layout is unknown, because the files' process groups do not name "
                "their axes; `rankscope layout` can set it"
            )
        elif len(self._layouts) > 1:
            self._sink.add_problem("the files disagree about the parallel layout")
        for ranks in sorted(self._assumed):
            who = f"one group of {len(ranks)} ranks" if len(ranks) > 1 else "a group of each rank"
            self._sink.add_guess(f"some communication names no process group; it is shown as {who}")

    def _learn(self, written: Written) -> None:
        self._names.setdefault(written.rank, written.name)
        self._windows.setdefault(written.rank, []).extend(written.windows)
        self._world_size = max(self._world_size, written.world_size)
        self._layouts.add(written.layout)
        if written.assumed:
            self._assumed.add(written.assumed if len(written.assumed) > 1 else ())
        if written.base_ns and self._other is None:
            self._other = written
        self._clocks.add(written.clock)
        self._sink.set_clock("absolute" if self._clocks == {"absolute"} else "unknown")


def _apart(earlier: list[Window], later: list[Window]) -> bool:
    """Whether two files of a rank show different steps at different times."""
    if not earlier or not later:
        return False
    ends = max(w.start_ns + w.dur_ns for w in earlier)
    begins = min(w.start_ns for w in earlier)
    disjoint = (
        min(w.start_ns for w in later) >= ends
        or max(w.start_ns + w.dur_ns for w in later) <= begins
    )
    return disjoint and not {w.step for w in earlier} & {w.step for w in later}

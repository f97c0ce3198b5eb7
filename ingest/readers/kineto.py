"""torch.profiler (Kineto) traces: JSON, gzipped or not, one file per rank.

Format: https://github.com/pytorch/kineto and the files PyTorch 1.8 to 2.13 write. Times are
microseconds with three decimals whatever displayTimeUnit says, relative to baseTimeNanoseconds
where that stands in the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.readers import Sink
from ingest.readers.inputs import Source
from ingest.readers.json_events import EventStream, tolerant_json
from ingest.readers.kineto_collectives import instances
from ingest.readers.kineto_events import Columns, Window
from ingest.readers.kineto_groups import DistributedInfo, whole
from ingest.readers.kineto_rows import Spans, write_collectives, write_memory, write_steps
from ingest.readers.rows import rank_info
from ingest.readers.shelf import Shelf
from ingest.readers.trace_events import MAX_NS, decode_event, decode_events
from ingest.readers.whole import add_imported_clock
from trace_hooks.schema import UNKNOWN

NAME = "kineto"

_YEAR_2001_US = 10**15
"""Times above this are microseconds since 1970; below, since something the file does not tell."""

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
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_ ]?(\d+)(?!\d)", re.IGNORECASE)


def recognises(source: Source) -> bool:
    """Whether it is a Chrome trace that PyTorch's profiler wrote."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        return bool(_OWN_CATEGORIES.search(head)) and bool(_EVENT.search(head))
    if head[:1] != b"{":
        return False
    if _OWN_EXPORT.search(head, 0, _EXPORT_SAYS_SO_IN):
        return False  # rankscope's export of such a run has kernels, too
    has_events = b'"traceEvents"' in head
    if has_events and (_OWN_KEYS.search(head) or _OWN_CATEGORIES.search(head)):
        return True
    # a long header before the events
    return b'"schemaVersion"' in head and b'"deviceProperties"' in head


@dataclass
class _FileTrace:
    """One file, read; times are Unix ns (or ns since its own zero)."""

    name: str
    columns: Columns
    info: DistributedInfo
    base_ns: int
    num_elements: int
    host: str
    device: str
    rank: int | None
    rank_told: bool
    """the file itself says its rank; its name is a guess"""

    @property
    def windows(self) -> list[Window]:
        """Profiler steps in Unix ns."""
        return [w._replace(start_ns=w.start_ns + self.base_ns) for w in self.columns.step_windows()]

    @property
    def extent_ns(self) -> tuple[int, int]:
        """When the recording began and ended, Unix ns; 0, 0 without any complete event."""
        begin_ns, end_ns = self.columns.extent_ns or (-self.base_ns, -self.base_ns)
        return begin_ns + self.base_ns, end_ns + self.base_ns


@dataclass
class _Written:
    """One file whose rows are written."""

    name: str
    rank: int
    windows: list[Window]
    world_size: int
    layout: str
    """empty where it is not known"""
    clock: str
    assumed: tuple[int, ...]
    """ranks of the group that was assumed for communication that tells none"""


_Found = tuple[_Written, Shelf] | _FileTrace


def read(source: Source, shelf: Shelf) -> _Found | None:
    """Read one file, and put its rows on a shelf of their own unless it tells no rank."""
    trace = _read(source, shelf)
    if trace is None or trace.rank is None:
        return trace
    rows = shelf.another()
    rows.count_events(trace.rank, trace.num_elements)
    return _written(trace, trace.rank, rows), rows


class Reading:
    """One import of any number of files; those that tell no rank wait for the ranks left over."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: list[_FileTrace] = []
        self._names: dict[int, str] = {}
        self._windows: dict[int, list[Window]] = {}
        self._layouts: set[str] = set()
        self._clocks: set[str] = set()
        self._assumed: set[tuple[int, ...]] = set()
        self._world_size = UNKNOWN

    def take(self, found: _Found) -> None:
        """One file; of several that say they are one rank, those that show other steps."""
        if isinstance(found, _FileTrace):
            self._waiting.append(found)
            return
        written, rows = found
        name, rank, earlier = written.name, written.rank, self._names.get(written.rank)
        if earlier is not None and not _apart(self._windows[rank], written.windows):
            self._sink.add_problem(f"{name}: says it is rank {rank}, as {earlier} does; left out")
            rows.drop()
            return
        if earlier is not None:
            self._sink.add_guess(f"{name}: other steps of the same rank {rank} as {earlier}")
        rows.give_to(self._sink)
        self._learn(written)

    def finish(self) -> None:
        """Place the files without a rank and say what was not told by any."""
        for trace in self._waiting:
            rank = next(r for r in range(len(self._names) + 1) if r not in self._names)
            self._sink.add_guess(
                f"{trace.name} tells no rank, neither inside nor in its name: shown as rank {rank}"
            )
            self._sink.count_events(UNKNOWN, trace.num_elements)
            self._learn(_written(trace, rank, self._sink))
        if self._layouts == {""} and max(self._world_size, len(self._names)) > 1:
            self._sink.add_guess(
                "the parallel layout is unknown: the files' process groups do not name their axes"
            )
        elif len(self._layouts) > 1:
            self._sink.add_problem("the files disagree about the parallel layout")
        for ranks in sorted(self._assumed):
            who = f"of {len(ranks)} ranks" if len(ranks) > 1 else "for each rank alone"
            self._sink.add_guess(
                f"some communication tells no process group: taken as one group {who}"
            )

    def _learn(self, written: _Written) -> None:
        self._names.setdefault(written.rank, written.name)
        self._windows.setdefault(written.rank, []).extend(written.windows)
        self._world_size = max(self._world_size, written.world_size)
        self._layouts.add(written.layout)
        if written.assumed:
            self._assumed.add(written.assumed if len(written.assumed) > 1 else ())
        self._clocks.add(written.clock)
        self._sink.set_clock("absolute" if self._clocks == {"absolute"} else "unknown")


def _read(source: Source, sink: Sink) -> _FileTrace | None:
    stream = EventStream(source.read, decode_events, decode_event)
    columns = Columns()
    for batch in stream:
        columns.add(batch)
    problems = [*source.damages(), *stream.problems]
    if columns.memory.num_without_totals:
        sink.add_guess(
            f"{source.name}: {columns.memory.num_without_totals:,} memory events tell what "
            "changed, not what was allocated: left out"
        )
    if columns.num_without_time:
        problems.append(f"{columns.num_without_time:,} events without a readable time left out")
    if not stream.num_elements - stream.num_bad:
        problems.append("no event could be read")
    for problem in problems:
        sink.add_problem(f"{source.name}: {problem}")
    if not stream.num_elements - stream.num_bad:
        return None
    return _described(source.name, stream, columns, sink)


def _described(name: str, stream: EventStream[Any], columns: Columns, sink: Sink) -> _FileTrace:
    header = {key: _json(text) for key, text in stream.header.items()}
    info = DistributedInfo(header.get("distributedInfo"))
    base_ns = header.get("baseTimeNanoseconds")
    rank = info.rank if info.rank is not None else _rank_in_name(name)
    if info.rank is None and rank is not None:
        sink.add_guess(f"{name}: rank {rank} is taken from its name")
    return _FileTrace(
        name=name,
        columns=columns,
        info=info,
        base_ns=base_ns if type(base_ns) is int and 0 <= base_ns < MAX_NS else 0,
        num_elements=stream.num_elements,
        host=str(header.get("host_name") or ""),
        device=_device(header.get("deviceProperties"), columns),
        rank=rank,
        rank_told=info.rank is not None,
    )


def _written(trace: _FileTrace, rank: int, sink: Sink) -> _Written:
    """Give the rows of a file to the sink."""
    windows = trace.windows
    layout = trace.info.layout()
    found, assumed = instances(trace.columns, trace.info, rank)
    spans = Spans.of(trace.columns, found, windows, trace.base_ns)
    started_ns, ended_ns = trace.extent_ns
    sink.add_rank(
        rank_info(
            rank,
            world_size=trace.info.world_size,
            layout=layout,
            host=trace.host,
            device=trace.device,
            started_ns=started_ns,
            ended_ns=ended_ns,
        )
    )
    write_steps(sink, rank, windows)
    write_collectives(sink, rank, found, trace.base_ns, windows)
    spans.write(sink, rank)
    write_memory(sink, rank, trace.columns.memory, trace.base_ns, windows)
    add_imported_clock(sink, rank, started_ns)
    return _Written(
        name=trace.name,
        rank=rank,
        windows=windows,
        world_size=trace.info.world_size,
        layout="" if layout is None else str(layout),
        clock="absolute" if _is_absolute(trace, spans.ts_ns_N) else "unknown",
        assumed=assumed,
    )


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


def _is_absolute(trace: _FileTrace, ts_ns: npt.NDArray[np.int64]) -> bool:
    return bool(trace.base_ns) or (len(ts_ns) > 0 and int(ts_ns.min()) > _YEAR_2001_US * 1000)


def _rank_in_name(name: str) -> int | None:
    """Rank in a file's name (rank-7.x, rank7_x, worker3.x) or its folder's (7/)."""
    path = PurePath(name)
    match = _RANK_IN_NAME.search(path.name)
    return whole(match[1] if match else path.parent.name)


def _json(text: bytes) -> Any:
    try:
        return tolerant_json(text)
    except ValueError:
        return None


def _device(properties: object, columns: Columns) -> str:
    """Name of the GPU whose kernels the file shows, empty where there is none."""
    used = columns.gpus()
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict) and entry.get("id") in used:
            return str(entry.get("name", ""))
    return ""

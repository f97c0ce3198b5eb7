"""One file of torch.profiler: what it holds, and its rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.readers.base import Sink
from ingest.readers.kineto.collectives import instances
from ingest.readers.kineto.events import Columns, Window
from ingest.readers.kineto.numbers import counted_groups
from ingest.readers.kineto.rows import Spans, write_collectives, write_memory, write_steps
from ingest.readers.parsing.json_events import EventStream, tolerant_json
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS, Event, event_stream
from ingest.readers.tables.process_groups import DistributedInfo, whole
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.whole_files import add_imported_clock

_YEAR_2001_US = 10**15
"""Times above this are microseconds since 1970; below, since an unknown moment."""
BLOCK_NS = 7_889_238 * 10**9
"""Base times are multiples of this, so that what counts from one is less."""
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_ ]?(\d+)(?!\d)", re.IGNORECASE)


@dataclass
class FileTrace:
    """One file, read; times are Unix ns (or ns since its own zero)."""

    name: str
    columns: Columns
    info: DistributedInfo
    base_ns: int
    num_elements: int
    host: str
    device: str
    rank: int | None
    has_rank: bool
    """the rank is in the file; one in its name is a guess"""
    is_cut: bool
    """it ends before its end, where its base time stands"""
    lists_devices: bool
    """the host has devices, which the operators may have run on"""

    @property
    def windows(self) -> list[Window]:
        """Profiler steps in Unix ns."""
        return [w._replace(start_ns=w.start_ns + self.base_ns) for w in self.columns.step_windows()]

    @property
    def lost_its_base(self) -> bool:
        """Whether its times count from a base that was cut off: PyTorch writes it at the end."""
        _, end_ns = self.columns.extent_ns or (0, 0)
        return self.is_cut and not self.base_ns and 0 < end_ns < BLOCK_NS

    @property
    def extent_ns(self) -> tuple[int, int]:
        """When the recording began and ended, Unix ns; 0, 0 without any complete event."""
        begin_ns, end_ns = self.columns.extent_ns or (-self.base_ns, -self.base_ns)
        return begin_ns + self.base_ns, end_ns + self.base_ns


@dataclass
class Written:
    """One file whose rows are written."""

    name: str
    rank: int
    windows: list[Window]
    world_size: int
    layout: str
    """empty where it is not known"""
    clock: str
    assumed: tuple[int, ...]
    """ranks of the group that was assumed for communication that names none"""
    base_ns: int
    started_ns: int
    counted_groups: tuple[int, ...]
    """those whose collectives have their positions in the file as numbers"""


def read_file(source: Source, sink: Sink) -> FileTrace | None:
    """What a file holds; None where that is no event at all."""
    stream = event_stream(source.read, Event)
    columns = Columns()
    for batch in stream:
        columns.add(batch)
    problems = [*source.damages(), *stream.problems]
    if columns.memory.num_without_totals:
        sink.add_guess(
            f"{source.name}: {columns.memory.num_without_totals:,} memory events left out, which "
            "say by how much memory changed but not how much was allocated"
        )
    if columns.num_without_time:
        problems.append(f"{columns.num_without_time:,} events without a readable time left out")
    num_processes = len(columns.processes())
    if num_processes > 1:
        problems.append(
            f"holds operators of {num_processes} processes, so it was probably merged from files "
            "of several ranks; it is shown as one rank: import the original files instead"
        )
    if not stream.num_elements - stream.num_bad:
        problems.append("no event could be read")
    for problem in problems:
        sink.add_problem(f"{source.name}: {problem}")
    if not stream.num_elements - stream.num_bad:
        return None
    return _described(source.name, stream, columns, sink)


def _described(name: str, stream: EventStream[Any], columns: Columns, sink: Sink) -> FileTrace:
    header = {key: _json(text) for key, text in stream.header.items()}
    info = DistributedInfo(header.get("distributedInfo"))
    base_ns = header.get("baseTimeNanoseconds")
    rank = info.rank if info.rank is not None else _rank_in_name(name)
    if info.rank is None and rank is not None:
        sink.add_guess(f"{name}: rank {rank} is taken from the name of the file")
    return FileTrace(
        name=name,
        columns=columns,
        info=info,
        base_ns=base_ns if type(base_ns) is int and 0 <= base_ns < MAX_NS else 0,
        num_elements=stream.num_elements,
        host=str(header.get("host_name") or ""),
        device=_device(header.get("deviceProperties"), columns),
        rank=rank,
        has_rank=info.rank is not None,
        is_cut=stream.is_cut,
        lists_devices=bool(header.get("deviceProperties")),
    )


def write_file(trace: FileTrace, rank: int, sink: Sink, first_number: int = 0) -> Written:
    """Give the rows of a file to the sink; `first_number`: as `instances` takes it."""
    windows = trace.windows
    layout = trace.info.layout()
    collectives, assumed = instances(trace.columns, trace.info, rank, first_number)
    on_cpu = not trace.lists_devices
    spans = Spans.of(trace.columns, collectives, windows, trace.base_ns, on_cpu)
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
    write_collectives(sink, rank, collectives, trace.base_ns, windows)
    spans.write(sink, rank)
    write_memory(sink, rank, trace.columns.memory, trace.base_ns, windows)
    add_imported_clock(sink, rank, started_ns)
    return Written(
        name=trace.name,
        rank=rank,
        windows=windows,
        world_size=trace.info.world_size,
        layout="" if layout is None else str(layout),
        clock="absolute" if _is_absolute(trace, spans.ts_ns_N) else "unknown",
        assumed=assumed,
        base_ns=trace.base_ns,
        started_ns=started_ns,
        counted_groups=counted_groups(collectives),
    )


def _is_absolute(trace: FileTrace, ts_ns: npt.NDArray[np.int64]) -> bool:
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
    """Name of the GPU whose kernels the file shows, empty without any."""
    used = columns.gpus()
    names = {
        entry["id"]: str(entry.get("name", ""))
        for entry in (properties if isinstance(properties, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), int)
    }
    shown = {names[number] for number in used if number in names} or set(names.values())
    return min(shown) if used and len(shown) == 1 else ""

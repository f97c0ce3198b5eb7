"""DLRover xpu_timer timelines: a protobuf of kernels per rank, and a text file with their names.

Format: https://github.com/intelligent-machine-learning/dlrover (xpu_timer/protos/hook.proto). Files
are RANK-WORLD.timeline with RANK-WORLD.timeline.meta next to them, whose lines are `code,name`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import PurePath

from ingest.limits import limits
from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.parsing.protobuf import Damaged, fields
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.finished_collectives import (
    UNMATCHED_SEQ,
    Communicator,
    Done,
    Members,
    write_collectives,
)
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import SpanList
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.torch_names import DTYPES, op_of_name
from ingest.readers.tables.whole_files import TooLarge, add_imported_clock, all_of, possible_rank
from trace_hooks.schema import UNKNOWN

FORMAT = Format("xpu_timer", "DLRover xpu_timer", has_own_clocks=True)

_KINDS = {0: "kernel", 1: "other_comm", 2: "memcpy"}  # matmul, collective, memory
_SIDES = {1: "send", 2: "recv"}
_OWN_PREFIX = "xpu_timer_"
_YEARS_US = range(978_307_200_000_000, 4_102_444_800_000_000)
"""2001 to 2100: a first message whose start lies outside is of another format."""
_FILE_NAME = re.compile(r"(\d{1,9})-(\d{1,9})\.timeline")
_META_NAME = re.compile(r"\.timeline\.meta(\.gz)?$")
_META_LINES = re.compile(rb"(\d{1,10},[^\n]*(\n|$))+")
_META_BYTES = 16 << 20

_TRACES, _HOST_TRACES, _PID, _RANK = 1, 2, 3, 4


def recognises(source: Source) -> bool:
    """Whether it is a timeline, or the names that belong to one."""
    return _is_meta(source) or _begins_with_a_trace(source.head)


def _is_meta(source: Source) -> bool:
    head = source.head[: 1 << 16].rpartition(b"\n")[0] or source.head
    named = _META_NAME.search(PurePath(source.name).name)
    return bool(named and _META_LINES.fullmatch(head))


def _begins_with_a_trace(head: bytes) -> bool:
    try:
        for number, value, _ in fields(head[: 1 << 16]):
            if number in (_TRACES, _HOST_TRACES) and isinstance(value, bytes):
                numbers = _numbers(value)
                return numbers.get(3 if number == _TRACES else 1, 0) in _YEARS_US
            if number not in (_PID, _RANK):
                return False
    except Damaged:
        pass
    return False


@dataclass
class _Call:
    """A collective by its kernel."""

    code: int
    comm_hash: int
    num_ranks: int
    seq: int
    num_bytes: int
    dtype: str
    side: str
    """send or recv where known"""
    enqueue_ns: int
    start_ns: int
    end_ns: int


@dataclass
class _Timeline:
    """One file, read; names of spans are codes until the names are known."""

    name: str
    spans: SpanList = field(default_factory=SpanList)
    calls: list[_Call] = field(default_factory=list)
    rank: int = UNKNOWN
    world_size: int = UNKNOWN
    pid: int = UNKNOWN
    num_bad: int = 0
    names: dict[int, str] | None = None
    """of its .meta file"""


@dataclass
class _Names:
    """A .meta: names of kernels by their codes."""

    timeline: str
    names: dict[int, str]


def read(source: Source, staged: StagedRows) -> _Timeline | _Names | None:
    """Read one timeline, or the names of one."""
    try:
        data = all_of(source)
    except TooLarge as error:
        staged.add_problem(f"{source.name}: {error}")
        return None
    for problem in source.damages():
        staged.add_problem(f"{source.name}: {problem}")
    if _is_meta(source):
        return _Names(_META_NAME.sub(".timeline", source.name), _names_in(data))
    timeline = _timeline(source.name, data, staged)
    if source.path is not None:
        meta = source.path.with_name(f"{source.path.name}.meta")
        if meta.is_file() and meta.stat().st_size <= _META_BYTES:
            timeline.names = _names_in(meta.read_bytes())
    if not len(timeline.spans):
        staged.add_problem(f"{source.name}: no kernel could be read")
        return None
    return timeline


def _timeline(name: str, data: bytes, sink: Sink) -> _Timeline:
    timeline = _Timeline(name)
    own_rank: int | None = None
    is_cut = False
    try:
        for number, value, _ in fields(data):
            if number in (_TRACES, _HOST_TRACES) and isinstance(value, bytes):
                add = _take_kernel if number == _TRACES else _take_host
                timeline.num_bad += not add(timeline, value)
            elif number == _RANK and isinstance(value, int):
                own_rank = value if value < limits().max_ranks else None
            elif number == _PID and isinstance(value, int):
                timeline.pid = value
    except Damaged as damage:
        is_cut = True
        sink.add_problem(f"{name}: cut off or {damage}; what comes before was read")
    bad = timeline.num_bad + timeline.spans.num_refused
    if bad:
        sink.add_problem(f"{name}: {bad:,} damaged kernels left out")
    match = _FILE_NAME.search(PurePath(name).name)
    named = possible_rank(match[1]) if match else None
    if own_rank is None and named is not None and (is_cut or named):
        own_rank = named
        sink.add_guess(f"{name}: rank {own_rank} is taken from the name of the file")
    timeline.rank = own_rank or 0  # protobuf leaves a 0 out
    if match and timeline.rank < int(match[2]) <= limits().max_ranks:
        timeline.world_size = int(match[2])
    return timeline


class Import:
    """One import: the timelines of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._timelines: dict[int, _Timeline] = {}
        self._names: dict[str, dict[int, str]] = {}
        self._all_names: dict[int, str] = {}

    def add_file(self, file: _Timeline | _Names) -> None:
        """One timeline, or the names of one."""
        if isinstance(file, _Names):
            self._names[file.timeline] = file.names
            self._all_names |= file.names
            return
        if file.names is not None:
            self._names.setdefault(file.name, file.names)
        if file.rank in self._timelines:
            earlier = self._timelines[file.rank].name
            self._sink.add_problem(same_rank(file.name, file.rank, earlier))
        else:
            self._timelines[file.rank] = file

    def finish(self) -> None:
        """Name everything and write it."""
        if not self._timelines:
            return
        members = self._members()
        nameless = 0
        for rank, timeline in sorted(self._timelines.items()):
            names = self._names.get(timeline.name, self._all_names)
            nameless += not names
            self._write(rank, timeline, names, members)
        if nameless:
            self._sink.add_guess(
                f"{nameless} timelines have no .timeline.meta: their kernels have numbers for names"
            )

    def _members(self) -> Members:
        """Who is in each communicator."""
        members = Members(max(timeline.world_size for timeline in self._timelines.values()))
        for rank, timeline in self._timelines.items():
            for call in timeline.calls:
                members.see(call.comm_hash, call.num_ranks, rank, rank)
        return members

    def _write(
        self,
        rank: int,
        timeline: _Timeline,
        names: dict[int, str],
        members: Members,
    ) -> None:
        begin_ns, end_ns = timeline.spans.extent()
        info = rank_info(
            rank,
            world_size=timeline.world_size,
            pid=timeline.pid,
            started_ns=begin_ns,
            ended_ns=end_ns,
        )
        self._sink.add_rank(info)
        timeline.spans.write(self._sink, rank, rename=lambda code: _named(code, names))
        done = [_done(call, names) for call in timeline.calls]
        hashes = sorted({call.comm_hash for call in timeline.calls})
        comms = [Communicator(_group_id(h), f"{h:#x}", "unknown", members.of(h)) for h in hashes]
        write_collectives(self._sink, rank, FORMAT.name, done, comms)
        add_imported_clock(self._sink, rank, begin_ns)


def _done(call: _Call, names: dict[int, str]) -> Done:
    op = call.side or op_of_name(_named(call.code, names)) or "unknown"
    is_message = op in ("send", "recv", "send_recv")
    return Done(
        group_id=_group_id(call.comm_hash),
        seq=UNMATCHED_SEQ + call.seq if is_message else call.seq,
        op=op,
        dtype=call.dtype,
        num_bytes=call.num_bytes,
        enqueue_ns=call.enqueue_ns,
        start_ns=call.start_ns,
        end_ns=call.end_ns,
    )


def _take_kernel(timeline: _Timeline, data: bytes) -> bool:
    """One KernelTrace; False where it is damaged."""
    try:
        numbers = _numbers(data)
        parts = {number: value for number, value, _ in fields(data) if isinstance(value, bytes)}
        nccl = {number: value for number, value, _ in fields(parts.get(9, b""))}
    except Damaged:
        return False
    start_ns, dur_ns = numbers.get(3, 0) * 1000, numbers.get(4, 0) * 1000
    if not 0 < start_ns < MAX_NS or dur_ns >= MAX_NS:
        return False
    kind = _KINDS.get(numbers.get(1, 0), "kernel")
    code = numbers.get(2, 0)
    num_bytes = _number(nccl.get(4)) if 9 in parts else UNKNOWN
    if 10 in parts:
        num_bytes = _numbers_or_none(parts[10]).get(1, UNKNOWN)
    track = "host" if numbers.get(11) else f"GPU {kind}"
    comm_hash, seq = nccl.get(3), _number(nccl.get(8, 0))
    is_known = isinstance(comm_hash, int) and 0 <= seq < UNMATCHED_SEQ
    side = _SIDES.get(_number(nccl.get(10, 0)), "")
    timeline.spans.add(
        start_ns,
        dur_ns,
        kind,
        code,
        track,
        num_bytes=num_bytes,
        group_id=_group_id(comm_hash) if isinstance(comm_hash, int) and is_known else 0,
        coll_seq=seq if is_known and not side else UNKNOWN,
    )
    if isinstance(comm_hash, int) and is_known:
        dtype = nccl.get(5, b"")
        named = dtype.decode("ascii", "replace").lower() if isinstance(dtype, bytes) else ""
        timeline.calls.append(
            _Call(
                code=code,
                comm_hash=comm_hash,
                num_ranks=_number(nccl.get(6)),
                seq=seq,
                num_bytes=num_bytes if num_bytes < MAX_NS else UNKNOWN,
                dtype=DTYPES.get(named, ("", 0))[0],
                side=side,
                enqueue_ns=start_ns - min(numbers.get(5, 0) * 1000, start_ns),
                start_ns=start_ns,
                end_ns=start_ns + dur_ns,
            )
        )
    return True


def _take_host(timeline: _Timeline, data: bytes) -> bool:
    """One HostTrace; False where it is damaged."""
    try:
        numbers = _numbers(data)
        parts = {number: value for number, value, _ in fields(data) if isinstance(value, bytes)}
    except Damaged:
        return False
    start_ns, dur_ns = numbers.get(1, 0) * 1000, numbers.get(2, 0) * 1000
    if not 0 < start_ns < MAX_NS or dur_ns >= MAX_NS:
        return False
    name = parts.get(3, b"").decode("utf-8", "replace").replace("@", ".")
    lower = name.lower()
    kind = "host"
    if 5 in parts or lower == "gc":
        kind = "gc"
    elif "dataloader" in lower or "data_load" in lower:
        kind = "data_wait"
    timeline.spans.add(start_ns, dur_ns, kind, name, "host")
    return True


def _numbers(data: bytes) -> dict[int, int]:
    """Numbers of a message by field; raises Damaged."""
    return {number: value for number, value, _ in fields(data) if isinstance(value, int)}


def _numbers_or_none(data: bytes) -> dict[int, int]:
    try:
        return _numbers(data)
    except Damaged:
        return {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and value < MAX_NS else UNKNOWN


def _names_in(data: bytes) -> dict[int, str]:
    names = {}
    for line in data[:_META_BYTES].decode("utf-8", "replace").splitlines():
        code, comma, name = line.partition(",")
        if comma and code.isdecimal() and len(code) < 11:
            names[int(code)] = name.strip().removeprefix(_OWN_PREFIX)
    return names


def _named(code: int | str, names: dict[int, str]) -> str:
    return code if isinstance(code, str) else names.get(code, f"kernel {code}")


def _group_id(comm_hash: int) -> int:
    digest = hashlib.sha256(f"xpu_timer|{comm_hash}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1

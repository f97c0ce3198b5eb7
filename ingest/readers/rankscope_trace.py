"""Traces that `rankscope export --format perfetto` wrote (ingest/exports/perfetto.py), read back.

Everything of a span comes back as it was: times on the rank's own clock, track, depth, step. What
another tool saved again without otherData.rankscope is read as any Chrome trace is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from json import JSONDecoder
from typing import Annotated, Any

import msgspec
import numpy as np

from ingest.limits import limits, variable
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.json_events import EventStream
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import KINDS, MODES, check_version

FORMAT = Format("rankscope_trace", "rankscope export", layout_from="job")

_HEAD = re.compile(rb'\s*\{\s*"otherData"\s*:\s*\{\s*"rankscope"\s*:\s*\{')
_LONGEST_REASON = 200
_MOST_HELD = 1 << 18
"""Spans and steps held, of all ranks together, before they are written."""
_CLOCKS = ("absolute", "per_step_relative", "unknown")

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
_Time = Annotated[int, msgspec.Meta(gt=-MAX_NS, lt=MAX_NS)]


class _About(msgspec.Struct):
    """otherData.rankscope."""

    schema: str
    t0_ns: int
    clock: str = "unknown"
    layout: dict[str, Any] | None = None


class _Args(msgspec.Struct):
    """args of every event that is read."""

    step: _Int64 = -1
    own_ts_ns: _Time | None = None
    own_dur_ns: _Time | None = None
    cpu_ns: _Int64 = -1
    depth: Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)] = 0
    microbatch: _Int32 = -1
    chunk: _Int32 = -1
    recompute: bool = False
    group_id: _Int64 = 0
    coll_seq: _Int64 = -1
    peer: _Int32 = -1
    num_bytes: _Int64 = -1
    mode: str = "eager"
    args: str | None = None
    loss: float | None = None
    grad_norm: float | None = None
    tokens: float | None = None
    flops: float | None = None
    lr: float | None = None
    name: str = ""
    track: str | None = None
    desc: str = ""
    axis: str = "unknown"
    ranks: list[_Int32] = []
    ts_ns: _Time = 0
    offset_ns: _Int64 = 0
    err_ns: _Int64 = -1
    drift_ppb: _Int64 = 0
    method: str = "imported"
    host: str | None = None
    device: str | None = None
    pid: _Int32 | None = None
    world_size: _Int32 | None = None
    started_ns: _Time | None = None
    ended_ns: _Time | None = None
    table: str = ""
    allocated: _Int64 = -1
    reserved: _Int64 = -1
    peak: _Int64 = -1
    retries: _Int64 = -1
    rss: _Int64 = -1
    kind: str = ""
    text: str = ""


class _Event(msgspec.Struct):
    """One event; flows and counters have more, which is not read."""

    ph: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    tid: _Int64 = 0
    ts: msgspec.Raw = msgspec.Raw(b"0")
    dur: msgspec.Raw = msgspec.Raw(b"0")
    cat: str = ""
    name: str = ""
    args: _Args = msgspec.field(default_factory=_Args)


_Timed = tuple[_Event, int, int]
"""An event with its begin, Unix ns on the rank's clock, and duration."""

_MANY = msgspec.json.Decoder(list[_Event])
_ONE = msgspec.json.Decoder(_Event)
_OF_SPANS = (
    "step",
    "cpu_ns",
    "depth",
    "microbatch",
    "chunk",
    "recompute",
    "group_id",
    "coll_seq",
    "peer",
    "num_bytes",
    "mode",
    "args",
)
_OF_STEPS = ("step", "loss", "grad_norm", "tokens", "flops", "lr")
_OF_GROUPS = ("group_id", "name", "desc", "axis", "ranks")
_OF_TABLES = {
    "memory": ("step", "ts_ns", "allocated", "reserved", "peak", "retries", "rss"),
    "marks": ("step", "ts_ns", "kind", "text", "args"),
}
_OF_CLOCKS = ("step", "ts_ns", "offset_ns", "err_ns", "drift_ppb", "method")


def recognises(source: Source) -> bool:
    """Whether the export's own mark stands in front of the events."""
    return _HEAD.match(source.head) is not None


_Found = tuple[str, dict[int, StagedRows]]
"""A file's name and what it holds of each rank."""


def read(source: Source, staged: StagedRows) -> _Found | None:
    """Read one file; one of a newer rankscope, or without a readable head, is a problem."""
    try:
        about = _about_of(source)
        file = _File(staged, about)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        staged.add_problem(f"{source.name}: its otherData.rankscope cannot be used ({reason})")
        return None
    stream = EventStream(source.read, _MANY.decode, _ONE.decode)
    for batch in stream:
        file.add(batch)
    for problem in (*source.damages(), *stream.problems, *file.close()):
        staged.add_problem(f"{source.name}: {problem}")
    if not file.all_staged:
        staged.add_problem(f"{source.name}: no event could be read")
    return source.name, file.all_staged


class Import:
    """One import: a file with all its ranks, or several files of different ranks."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._files: dict[int, str] = {}

    def add_file(self, file: _Found) -> None:
        """One file: of each rank the first that shows it."""
        name, all_staged = file
        for rank, staged in sorted(all_staged.items()):
            if rank in self._files:
                why = f"shows rank {rank}, as {self._files[rank]} does"
                self._sink.add_problem(f"{name}: {why}; that rank is left out here")
                staged.drop()
            else:
                self._files[rank] = name
                staged.give_to(self._sink)

    def finish(self) -> None:
        """Every file was written as it was read."""


def _about_of(source: Source) -> _About:
    match = _HEAD.match(source.head)
    assert match is not None
    text = source.head[match.end() - 1 :].decode("utf-8", "replace")
    value, _ = JSONDecoder().raw_decode(text)
    about = msgspec.convert(value, _About)
    check_version(about.schema, "it")
    if abs(about.t0_ns) >= MAX_NS:
        raise ValueError(f"its t0_ns {about.t0_ns} is not a time")
    return about


class _File:
    """One file: rows of each rank, staged apart a piece at a time."""

    def __init__(self, staged: StagedRows, about: _About) -> None:
        self.all_staged: dict[int, StagedRows] = {}
        self._staged = staged
        self._t0_ns = about.t0_ns
        self._layout = None if about.layout is None else ParallelLayout.from_json(about.layout)
        if self._layout is not None and self._layout.world_size > limits().max_ranks:
            raise ValueError(f"a layout of {self._layout.world_size} ranks")
        self._tracks: dict[tuple[int, int], str] = {}
        self._args_by_rank: dict[int, _Args] = {}
        self._spans: dict[int, list[_Timed]] = defaultdict(list)
        self._steps: dict[int, list[_Timed]] = defaultdict(list)
        self._clocks: dict[int, list[_Args]] = defaultdict(list)
        self._rows: dict[tuple[str, int], list[_Args]] = defaultdict(list)
        self._groups: list[_Args] = []
        self._groups_of: dict[int, list[_Args]] = {}
        self._num_events: dict[int, int] = defaultdict(int)
        self._num_refused = self._num_held = 0
        staged.set_clock(about.clock if about.clock in _CLOCKS else "unknown")

    def add(self, batch: list[_Event]) -> None:
        """Some more events."""
        whole = []
        for event in batch:
            if event.pid >= limits().max_ranks:
                self._num_refused += 1
                continue
            self._num_events[event.pid] += 1
            if event.ph == "X":
                whole.append(event)
            elif event.ph == "M":
                self._learn(event)
        ts_ns, readable = microseconds_to_ns([event.ts for event in whole])
        dur_ns, has_dur = microseconds_to_ns([event.dur for event in whole])
        readable &= has_dur & (np.abs(ts_ns) < MAX_NS) & (np.abs(dur_ns) < MAX_NS)
        times = zip(ts_ns.tolist(), dur_ns.tolist(), readable.tolist(), strict=True)
        for event, (at_ns, lasts_ns, is_readable) in zip(whole, times, strict=True):
            self._take_one(event, at_ns, lasts_ns, is_readable)
        self._num_held += len(whole)
        if self._num_held >= _MOST_HELD:
            self._write_held()

    def _take_one(self, event: _Event, at_ns: int, dur_ns: int, is_readable: bool) -> None:
        own = event.args
        start_ns = at_ns + self._t0_ns if own.own_ts_ns is None else own.own_ts_ns
        dur_ns = dur_ns if own.own_dur_ns is None else own.own_dur_ns
        is_step = event.cat == "step"
        if not is_readable or abs(start_ns) >= MAX_NS or not (is_step or event.cat in KINDS):
            self._num_refused += 1
        elif is_step:
            self._steps[event.pid].append((event, start_ns, dur_ns))
        else:
            self._spans[event.pid].append((event, start_ns, dur_ns))

    def _learn(self, event: _Event) -> None:
        args = event.args
        if event.name == "thread_name":
            self._tracks[event.pid, event.tid] = args.name if args.track is None else args.track
        elif event.name == "rankscope_rank":
            self._args_by_rank[event.pid] = args
        elif event.name == "rankscope_clock":
            self._clocks[event.pid].append(args)
        elif event.name == "rankscope_group":
            self._groups.append(args)
        elif event.name == "rankscope_row" and args.table in _OF_TABLES:
            self._rows[args.table, event.pid].append(args)
            self._num_held += 1

    def _shelf_of(self, rank: int) -> StagedRows:
        if rank not in self.all_staged:
            self.all_staged[rank] = self._staged.another()
        return self.all_staged[rank]

    def _write_held(self) -> None:
        for rank in sorted({*self._spans, *self._steps}):
            self._write_spans(rank, self._spans.get(rank, []))
            self._write_steps(rank, self._steps.get(rank, []))
        for (table, rank), held in self._rows.items():
            columns = {name: [getattr(row, name) for row in held] for name in _OF_TABLES[table]}
            self._add(table, rank, len(held), columns)
        self._rows.clear()
        self._spans.clear()
        self._steps.clear()
        self._num_held = 0

    def _write_spans(self, rank: int, spans: list[_Timed]) -> None:
        columns: dict[str, Any] = {name: [] for name in _OF_SPANS}
        for event, _, _ in spans:
            for name, column in columns.items():
                column.append(getattr(event.args, name))
        columns["mode"] = [mode if mode in MODES else "imported" for mode in columns["mode"]]
        columns |= {
            "rank": rank,
            "ts_ns": [start_ns for _, start_ns, _ in spans],
            "dur_ns": [dur_ns for _, _, dur_ns in spans],
            "kind": [event.cat for event, _, _ in spans],
            "name": [event.name for event, _, _ in spans],
            "track": [
                self._tracks.get((rank, event.tid), f"thread {event.tid}") for event, _, _ in spans
            ],
        }
        self._add("spans", rank, len(spans), columns)

    def _write_steps(self, rank: int, steps: list[_Timed]) -> None:
        columns = {name: [getattr(event.args, name) for event, _, _ in steps] for name in _OF_STEPS}
        times = {"start_ns": [s[1] for s in steps], "dur_ns": [s[2] for s in steps]}
        self._add("steps", rank, len(steps), columns | times)

    def close(self) -> list[str]:
        """Write what is left; returns what was wrong."""
        self._write_held()
        self._groups_of = self._groups_by_rank()
        problems = []
        for rank in sorted(self._num_events):
            self._write_rank(rank)
        if self._num_refused:
            problems.append(
                f"{self._num_refused:,} events of no known kind, without a readable time or of a "
                f"rank beyond {variable('max_ranks')} left out"
            )
        return problems

    def _write_rank(self, rank: int) -> None:
        args = self._args_by_rank.get(rank, _Args())
        self._shelf_of(rank).add_rank(
            rank_info(
                rank,
                world_size=-1 if args.world_size is None else args.world_size,
                layout=self._layout,
                host=args.host or "",
                device=args.device or "",
                pid=-1 if args.pid is None else args.pid,
                started_ns=args.started_ns or self._t0_ns,
                ended_ns=args.ended_ns or 0,
            )
        )
        self._shelf_of(rank).count_events(rank, self._num_events[rank])
        clocks = self._clocks.get(rank, [])
        columns = {name: [getattr(clock, name) for clock in clocks] for name in _OF_CLOCKS}
        self._add("clocks", rank, len(clocks), columns)
        groups = self._groups_of.get(rank, [])
        columns = {name: [getattr(group, name) for group in groups] for name in _OF_GROUPS}
        self._add("groups", rank, len(groups), columns)

    def _groups_by_rank(self) -> dict[int, list[_Args]]:
        """Groups by the first of their members that is shown."""
        by_rank: dict[int, list[_Args]] = defaultdict(list)
        for group in self._groups:
            member = next((rank for rank in group.ranks if rank in self._num_events), None)
            if member is not None:
                by_rank[member].append(group)
        return by_rank

    def _add(self, table: str, rank: int, num_rows: int, columns: dict[str, Any]) -> None:
        if num_rows:
            table_rows = rows(table, num_rows, {"rank": rank, **columns})
            self._shelf_of(rank).add_rows(table, rank, table_rows)

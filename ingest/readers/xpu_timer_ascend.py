"""XPUTimer's lines of HCCL calls on Ascend devices: JSON lines, one file per process.

A line has `ts_us`, microseconds of the host's monotonic clock at the end of a call, `name` such as
HcclAllReduce, `type` coll, `dur_us`, `psize` (bytes) and `hang`. Files are
ascend_trace.rankRANK.pidPID.jsonl. Written after xpu_timer_ascend_hook.cc of the repository
Kingsley-Yoimiya/probing-test.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.parsing.json_lines import JsonLines, Line, first_objects
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.span_list import SpanList
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock, named_rank

FORMAT = Format("xpu_timer_ascend", "XPUTimer's HCCL calls on Ascend")

_KEYS = {"ts_us", "name", "type", "dur_us", "psize"}
_PID = re.compile(r"\.pid(\d{1,9})\b")
_TRACK = "HCCL calls"
_MOST_MARKS = 1000


def recognises(source: Source) -> bool:
    """Whether its lines are calls."""
    return any(set(line) >= _KEYS for line in first_objects(source.head))


@dataclass
class _Hang:
    """A call that XPUTimer reports as hanging."""

    ts_ns: int
    text: str


@dataclass
class _Calls:
    """One file, read."""

    name: str
    rank: int | None
    pid: int
    spans: SpanList = field(default_factory=SpanList)
    hangs: list[_Hang] = field(default_factory=list)


def read(source: Source, staged: StagedRows) -> _Calls | None:
    """Read one file."""
    pid = _PID.search(PurePath(source.name).name)
    calls = _Calls(source.name, named_rank(source.name), int(pid[1]) if pid else -1)
    lines = JsonLines(source.read)
    for line in lines:
        if not _take(calls, line):
            lines.refuse()
    problems = [*source.damages(), *lines.problems]
    if not len(calls.spans):
        problems.append("no call could be read")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    return calls if len(calls.spans) else None


def _take(calls: _Calls, line: Line) -> bool:
    """Keep one call; False where it is none."""
    name, end_ns, dur_ns = line.get("name"), _ns(line.get("ts_us")), _ns(line.get("dur_us"))
    if not isinstance(name, str) or end_ns is None or dur_ns is None:
        return False
    psize = line.get("psize")
    size = psize if isinstance(psize, int) and 0 <= psize < MAX_COUNT else -1
    calls.spans.add(end_ns - dur_ns, dur_ns, "other_comm", name[:200], _TRACK, num_bytes=size)
    if line.get("hang") is True and len(calls.hangs) < _MOST_MARKS:
        text = f"XPUTimer reports a hang: {name[:200]} took {dur_ns / 1e6:,.1f} ms"
        calls.hangs.append(_Hang(end_ns - dur_ns, text))
    return True


def _ns(microseconds: Any) -> int | None:
    """Whole nanoseconds; None for what is no time."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float):
        return None
    if isinstance(microseconds, float) and not math.isfinite(microseconds):
        return None
    ns = microseconds * 1000
    return round(ns) if 0 <= ns < MAX_NS else None


class Import:
    """One import: files of the processes of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._ranks: dict[int, _Calls] = {}
        self._waiting: list[_Calls] = []

    def add_file(self, calls: _Calls) -> None:
        """One file."""
        if calls.rank is None:
            self._waiting.append(calls)
        elif calls.rank in self._ranks:
            earlier = self._ranks[calls.rank].name
            self._sink.add_problem(same_rank(calls.name, calls.rank, earlier))
        else:
            self._ranks[calls.rank] = calls

    def finish(self) -> None:
        """Write every rank."""
        for calls in self._waiting:
            rank = next(r for r in range(len(self._ranks) + 1) if r not in self._ranks)
            self._sink.add_guess(f"{calls.name} names no rank: shown as rank {rank}")
            self._ranks[rank] = calls
        if not self._ranks:
            return
        self._sink.set_clock("unknown")
        self._sink.add_guess(
            "times are those of each host's monotonic clock, which says no date and cannot be "
            "compared between hosts"
        )
        self._sink.add_guess(
            "the lengths are those of the calls on the host, which may return before the "
            "communication has run; no line names a communicator or a step"
        )
        for rank, calls in sorted(self._ranks.items()):
            self._write(rank, calls)

    def _write(self, rank: int, calls: _Calls) -> None:
        begin_ns, end_ns = calls.spans.extent()
        self._sink.add_rank(rank_info(rank, pid=calls.pid, started_ns=begin_ns, ended_ns=end_ns))
        calls.spans.write(self._sink, rank)
        if calls.hangs:
            columns = {
                "rank": rank,
                "ts_ns": [hang.ts_ns for hang in calls.hangs],
                "kind": "note",
                "text": [hang.text for hang in calls.hangs],
            }
            self._sink.add_rows("marks", rank, rows("marks", len(calls.hangs), columns))
        add_imported_clock(self._sink, rank, begin_ns)

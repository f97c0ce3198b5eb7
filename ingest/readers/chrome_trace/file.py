"""One Chrome trace in JSON: spans by (process, thread), named once all names are known."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np

from ingest.readers.base import Sink
from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS, Event, event_stream
from ingest.readers.tables.begin_end_pairs import Track, pair_problems
from ingest.readers.tables.span_list import BEFORE_FIRST_IN_FILE, MAX_STEP, SpanList
from ingest.readers.tables.torch_names import COMM_KERNEL, STEP_NAME
from ingest.readers.tables.whole_files import possible_rank
from trace_hooks.schema import BEFORE_FIRST_STEP, KINDS

_RANK = re.compile(r"\brank[ _-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_STEP_VALUE = re.compile(rb'"(?:step|iteration)"\s*:\s*(-?\d{1,15})\s*[,}]')
_KIND_BY_CATEGORY = {"gpu_memcpy": "memcpy", "gpu_memset": "memcpy", "memcpy": "memcpy"} | {
    kind: kind for kind in KINDS
}
_BEGINS, _ENDS = ("B", "b"), ("E", "e")
_NOT_SPANS = {
    "i": "instants",
    "I": "instants",
    "R": "instants",
    "n": "instants",
    "C": "counters",
    "s": "flows",
    "t": "flows",
    "f": "flows",
}


class _ChromeEvent(Event, gc=False):
    """An event of any kind."""

    id: int | float | str | None = None


def read_file(source: Source, sink: Sink) -> ChromeFile:
    """All of a file; what is wrong with it goes to the sink."""
    stream = event_stream(source.read, _ChromeEvent)
    file = ChromeFile(source.name)
    for batch in stream:
        file.add(batch)
    for problem in (*source.damages(), *stream.problems, *file.close()):
        sink.add_problem(f"{source.name}: {problem}")
    file.base_ns = _base_ns(stream.header)
    return file


@dataclass(frozen=True)
class _Async:
    """The track of asynchronous events of a category, which belong to no thread."""

    category: str


@dataclass
class _Pending:
    """Begins and ends of one track, in the order of the file."""

    ts: array[int] = field(default_factory=lambda: array("q"))
    is_end: array[int] = field(default_factory=lambda: array("b"))
    begun: list[tuple[str, str, int]] = field(default_factory=list)  # name, kind, step


class ChromeFile:
    """One file: spans by (process, thread), named once all names are known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.base_ns = 0
        self.pids: dict[Any, int] = defaultdict(int)
        self.pids_of_spans: set[Any] = set()
        self.spans = SpanList()
        self.dropped: dict[str, int] = defaultdict(int)
        self._steps: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
        self._process_names: dict[Any, str] = {}
        self._thread_names: dict[tuple[Any, Any], str] = {}
        self._pending: dict[tuple[Any, Any, Any], _Pending] = defaultdict(_Pending)
        self._num_without_time = 0

    def add(self, batch: list[_ChromeEvent]) -> None:
        """Some more events."""
        timed = []
        for event in batch:
            self.pids[event.pid] += 1
            if event.ph == "M":
                self._learn_name(event)
            elif event.ph == "X" or event.ph in _BEGINS or event.ph in _ENDS:
                timed.append(event)
            elif event.ph in _NOT_SPANS:
                self.dropped[_NOT_SPANS[event.ph]] += 1
            else:
                self.dropped["events of other kinds"] += 1
        if not timed:
            return
        ts_ns, readable = microseconds_to_ns([event.ts for event in timed])
        dur_ns, has_dur = microseconds_to_ns([event.dur for event in timed])
        readable &= has_dur & (np.abs(ts_ns) < MAX_NS) & (dur_ns < MAX_NS)
        self._num_without_time += int((~readable).sum())
        for i in np.flatnonzero(readable).tolist():
            self._add(timed[i], int(ts_ns[i]), max(int(dur_ns[i]), 0))

    def _learn_name(self, event: _ChromeEvent) -> None:
        try:
            name = msgspec.json.decode(event.args)["name"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if not isinstance(name, str):
            return
        if event.name == "process_name":
            self._process_names[event.pid] = name
        elif event.name == "thread_name":
            self._thread_names[event.pid, event.tid] = name

    def _add(self, event: _ChromeEvent, ts_ns: int, dur_ns: int) -> None:
        name = event.name or ""
        step = _step_of(event)
        if event.ph == "X":
            match = STEP_NAME.fullmatch(name)
            number = int(match[1]) if match else step if event.cat == "step" else -1
            if 0 <= number < MAX_STEP:
                self._steps[event.pid].append((number, ts_ns, ts_ns + dur_ns))
            else:
                track = (event.pid, event.tid)
                self._span(track, ts_ns, dur_ns, _kind(event.cat, name), name, step)
            return
        is_async = event.ph in ("b", "e")
        group = (_Async(event.cat or "async"), event.id) if is_async else (event.tid, None)
        pending = self._pending[event.pid, *group]
        pending.ts.append(ts_ns)
        pending.is_end.append(event.ph in _ENDS)
        pending.begun.append((name, _kind(event.cat, name), step))

    def _span(
        self, track: tuple[Any, Any], ts_ns: int, dur_ns: int, kind: str, name: str, step: int
    ) -> None:
        self.pids_of_spans.add(track[0])
        self.spans.add(ts_ns, dur_ns, kind, name, track, step)

    def close(self) -> list[str]:
        """Put begins and ends together; returns what was wrong."""
        alone = never = 0
        for (pid, tid, _), pending in self._pending.items():
            track: Track[int] = Track(partial(self._emit, (pid, tid)))
            for i in np.argsort(np.frombuffer(pending.ts, np.int64), kind="stable").tolist():
                name, kind, step = pending.begun[i]
                if pending.is_end[i]:
                    track.end(pending.ts[i], name, step)
                else:
                    track.begin(pending.ts[i], kind, name, step)
            track.close()
            alone += track.num_ends_alone
            never += track.num_never_ended
        self._pending.clear()
        problems = pair_problems(alone, never)
        refused = self._num_without_time + self.spans.num_refused
        if refused:
            problems.append(f"{refused:,} events without a readable time left out")
        return problems

    def _emit(
        self,
        track: tuple[Any, Any],
        ts_ns: int,
        dur_ns: int,
        kind: str,
        name: str,
        begin_step: int,
        end_step: int,
    ) -> None:
        step = begin_step if begin_step != BEFORE_FIRST_STEP else end_step
        self._span(track, ts_ns, dur_ns, kind, name, step)

    def ranks(self) -> dict[Any, int] | None:
        """Rank of every process that names one; None where the file is of one rank.

        That it is where processes name none, or one and some that have spans do not.
        """
        texts = {pid: self._process_names.get(pid, str(pid)) for pid in self.pids}
        named = {pid: match for pid, text in texts.items() if (match := _RANK.search(text))}
        ranks = {
            pid: rank
            for pid, match in named.items()
            if (rank := possible_rank(match[1])) is not None
        }
        is_whole = self.pids_of_spans <= ranks.keys()
        return ranks if ranks and (is_whole or len(set(ranks.values())) > 1) else None

    def windows(self, pids: Iterable[Any]) -> list[tuple[int, int, int]]:
        """(step, begin, end) of some processes, each step once, in Unix ns where that is known."""
        extents: dict[int, tuple[int, int, int]] = {}
        for pid in pids:
            for step, begin_ns, end_ns in self._steps.get(pid, []):
                extents.setdefault(step, (step, begin_ns + self.base_ns, end_ns + self.base_ns))
        return sorted(extents.values(), key=lambda window: window[1])

    def label(self, pid: Any, tid: Any, alone: bool) -> str:
        """Name of a track; `alone`: no other process of the rank has spans."""
        thread = self._thread_names.get((pid, tid))
        if thread is None:
            thread = "" if tid is None else f"thread {tid}"
            thread = tid.category if isinstance(tid, _Async) else thread
        process = self._process_names.get(pid)
        if alone and thread:
            return thread
        return " / ".join(part for part in (process or f"process {pid}", thread) if part)


def _kind(category: str | None, name: str) -> str:
    kind = _KIND_BY_CATEGORY.get((category or "").lower(), "host")
    if kind in ("host", "kernel") and COMM_KERNEL.match(name):
        return "other_comm"
    return kind


def _step_of(event: _ChromeEvent) -> int:
    match = _STEP_VALUE.search(bytes(event.args))
    if match is None:
        return BEFORE_FIRST_STEP
    step = int(match[1])
    return step if step >= 0 else BEFORE_FIRST_IN_FILE


def _base_ns(header: dict[str, bytes]) -> int:
    """What times count from: `t0_ns` of rankscope's own export; 0 unknown."""
    for key in ("otherData", "metadata"):
        try:
            value = msgspec.json.decode(header.get(key, b"{}"))
            base_ns = int(value.get("t0_ns", 0))
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            continue
        if 0 < base_ns < MAX_NS:
            return base_ns
    return 0

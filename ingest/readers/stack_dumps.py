"""Stacks of ranks as tools print them: `py-spy dump` (text or --json) and Python's faulthandler.

Of each file the main thread's stack becomes a row of `looks`: the page Stuck groups ranks whose
stacks are equal. faulthandler lists the newest thread first, so that the last one is the main
thread; of several dumps in a file the last counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_COUNT
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.stacks import stack_of
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, all_of, named_rank, rank_of_name
from trace_hooks.schema import UNKNOWN

FORMAT = Format("stack_dumps", "stacks of py-spy or faulthandler", accompanies=True)

_JSON = re.compile(rb'\s*\[\s*\{\s*"pid"\s*:.{0,400}?"thread_id"', re.DOTALL)
_BEGIN = re.compile(
    rb"\s*(?:Fatal Python error: [^\n]*\n\s*|Timeout \(\d+:\d\d:\d\d\)!\s*\n)?"
    rb"(?:Current thread|Thread) 0x[0-9a-fA-F]+[^\n]*\(most recent call first\):\s*\n"
)
_PY_SPY = re.compile(rb"\s*Process (\d{1,9}): [^\n]*\nPython v\d")
_FAULT_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-fA-F]+")
_FAULT_FRAME = re.compile(r'^  File "([^"]{1,500})", line (\d{1,9}) in (.{1,200})$')
_SPY_THREAD = re.compile(r'^Thread \S+ \([^)]*\)(?:: "(.*)")?')
_SPY_FRAME = re.compile(r"^    (.{1,200}) \((.{1,500}):(\d{1,9})\)$")
_MOST_OTHERS = 32

Frame = tuple[str, str, int]


@dataclass
class _Thread:
    name: str
    frames: list[Frame]


@dataclass
class Dump:
    """One file, read. `rank`: of its name, None where that has none; `ts_ns`: 0 unknown."""

    name: str
    source: str
    pid: int
    rank: int | None
    ts_ns: int
    stack: str | None
    threads: str | None


def recognises(source: Source) -> bool:
    """Whether it begins as these tools begin what they print: logs may hold a dump further on."""
    head = source.head
    return any(pattern.match(head) for pattern in (_JSON, _BEGIN, _PY_SPY))


def read(source: Source, staged: StagedRows) -> Dump | None:
    """Read one file."""
    try:
        data = all_of(source)
    except TooLarge as error:
        staged.add_problem(f"{source.name}: {error}")
        return None
    for problem in source.damages():
        staged.add_problem(f"{source.name}: {problem}")
    pid, tool = UNKNOWN, "py_spy"
    if _JSON.match(data):
        pid, threads = _of_json(data)
        main = next((one for one in threads if one.name == "MainThread"), None)
    elif found := _PY_SPY.match(data):
        pid, threads = int(found[1]), _of_py_spy(data.decode("utf-8", "replace"))
        main = next((one for one in threads if one.name == "MainThread"), None)
    else:
        tool, threads = "faulthandler", _of_faulthandler(data.decode("utf-8", "replace"))
        main = threads[-1] if threads else None
    main = main or (threads[0] if threads else None)
    if main is None:
        staged.add_problem(f"{source.name}: holds no stack that could be read")
        return None
    others = [one.frames[0] for one in threads if one is not main and one.frames]
    return Dump(
        source.name,
        tool,
        pid,
        _rank_of(source.name, pid),
        _changed_ns(source),
        stack_of(main.frames),
        stack_of(others[:_MOST_OTHERS]),
    )


def _of_json(data: bytes) -> tuple[int, list[_Thread]]:
    try:
        found = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return UNKNOWN, []
    pid, threads = UNKNOWN, []
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("frames"), list):
            continue
        frames = [_frame_of(frame) for frame in one["frames"] if isinstance(frame, dict)]
        name = one.get("thread_name")
        is_main = one.get("thread_id") == one.get("os_thread_id") == one.get("pid")
        label = "MainThread" if is_main else str(name)[:200] if isinstance(name, str) else ""
        threads.append(_Thread(label, [frame for frame in frames if frame is not None]))
        number = one.get("pid")
        pid = number if type(number) is int and 0 <= number < MAX_COUNT else pid
    return pid, threads


def _frame_of(frame: dict[str, Any]) -> Frame | None:
    name, file = frame.get("name"), frame.get("filename")
    line = frame.get("line")
    if not isinstance(name, str) or not isinstance(file, str):
        return None
    return name, file, line if type(line) is int and 0 <= line < 10**9 else 0


def _of_py_spy(text: str) -> list[_Thread]:
    threads: list[_Thread] = []
    for line in text.splitlines():
        if found := _SPY_THREAD.match(line):
            threads.append(_Thread(found[1] or "", []))
        elif threads and (frame := _SPY_FRAME.match(line)):
            threads[-1].frames.append((frame[1], frame[2], int(frame[3])))
    return threads


def _of_faulthandler(text: str) -> list[_Thread]:
    threads: list[_Thread] = []
    for line in text.splitlines():
        if _FAULT_THREAD.match(line):
            threads.append(_Thread("", []))
        elif threads and (frame := _FAULT_FRAME.match(line)):
            threads[-1].frames.append((frame[3], frame[1], int(frame[2])))
    return threads


def _rank_of(name: str, pid: int) -> int | None:
    """Rank in a file's name, which may hold the process's number instead."""
    named = named_rank(name)
    if named is None:
        number = rank_of_name(PurePath(name).name)
        named = None if number == pid else number
    return named


def _changed_ns(source: Source) -> int:
    try:
        return source.path.stat().st_mtime_ns if source.path is not None else 0
    except OSError:
        return 0


class Import:
    """One import: the stacks of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._dumps: list[Dump] = []

    def add_file(self, dump: Dump) -> None:
        """One file."""
        self._dumps.append(dump)

    def finish(self) -> None:
        """Give every file its rank, and write its stacks."""
        of_process = self._sink.ranks_by_pid()
        placed: dict[int, list[Dump]] = {}
        waiting = []
        for dump in self._dumps:
            rank = (of_process or {}).get(dump.pid, dump.rank)
            if rank is None:
                waiting.append(dump)
            elif any(other.source == dump.source for other in placed.get(rank, ())):
                self._sink.add_problem(same_rank(dump.name, rank, placed[rank][0].name))
            else:
                placed.setdefault(rank, []).append(dump)
        for dump in waiting:
            if of_process is not None:
                self._sink.add_problem(f"{dump.name}: nothing says of which rank it is; left out")
                continue
            rank = next(rank for rank in range(len(placed) + 1) if rank not in placed)
            placed[rank] = [dump]
            self._sink.add_guess(f"{dump.name} names no rank: shown as rank {rank}")
        for rank, dumps in placed.items():
            self._write(rank, dumps, max(placed) + 1)

    def _write(self, rank: int, dumps: list[Dump], world_size: int) -> None:
        known = [dump.ts_ns for dump in dumps if dump.ts_ns > 0]
        info = rank_info(
            rank,
            world_size=world_size,
            pid=max(dump.pid for dump in dumps),
            started_ns=min(known, default=0),
            ended_ns=max(known, default=0),
        )
        self._sink.add_rank(info)
        columns = {
            "rank": rank,
            "ts_ns": [dump.ts_ns for dump in dumps],
            "pid": [dump.pid for dump in dumps],
            "source": [dump.source for dump in dumps],
            "stack": [dump.stack for dump in dumps],
            "threads": [dump.threads for dump in dumps],
        }
        self._sink.add_rows("looks", rank, rows("looks", len(dumps), columns))

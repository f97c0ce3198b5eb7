"""Phase times of every step as a training script logs them: JSON lines, one file per rank.

A line has step, rank and milliseconds per phase (data_ms, compute_ms, comm_ms, wait_ms, step_ms),
perhaps loss, world_size, node_rank and ts, the Unix time in seconds at which the step was over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ingest.limits import limits, variable
from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.parsing.json_lines import JsonLines, Line, first_objects
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.span_list import MAX_STEP, SpanList
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock, rank_of_name
from trace_hooks.schema import UNKNOWN

FORMAT = Format("phase_log", "phase logs")

PHASES = (
    ("data_ms", "data_wait", "data"),
    ("compute_ms", "forward", "compute"),
    ("comm_ms", "other_comm", "communication"),
    ("wait_ms", "host", "wait"),
)
"""Key, kind and name of the phases, in the order in which a step goes through them."""
_LONGEST_MS = 1e9
_NUMBERS = ("loss", "grad_norm", "tokens", "lr")


def recognises(source: Source) -> bool:
    """Whether its lines are steps with phase times."""
    return any(_is_line(line) for line in first_objects(source.head))


def _is_line(line: Line) -> bool:
    keys = {"step_ms", *(key for key, _, _ in PHASES)}
    return "step" in line and len(keys & set(line)) >= 2


@dataclass
class _Log:
    """One file, read."""

    name: str
    rank: int | None
    world_size: int = UNKNOWN
    host: str = ""
    has_times: bool = True
    spans: SpanList = field(default_factory=SpanList)
    steps: dict[int, dict[str, Any]] = field(default_factory=dict)
    num_again: int = 0
    num_longer: int = 0


def read(source: Source, staged: StagedRows) -> _Log | None:
    """Read one log."""
    lines = JsonLines(source.read)
    log = _Log(source.name, None)
    ranks: set[int] = set()
    for line in lines:
        if not _take(log, line, ranks):
            lines.refuse()
    problems = [*source.damages(), *lines.problems]
    if len(ranks) > 1:
        named = f"{min(ranks)} and {max(ranks)}"
        problems.append(f"its lines belong to several ranks ({named}); give one file per rank")
    elif not log.steps:
        problems.append("no step could be read")
    if log.num_again:
        problems.append(f"{log.num_again:,} lines left out whose step had a line already")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    if len(ranks) > 1 or not log.steps:
        return None
    log.rank = ranks.pop() if ranks else _rank_in_name(source.name, staged)
    return log


def _rank_in_name(name: str, staged: StagedRows) -> int | None:
    rank = rank_of_name(name)
    if rank is not None:
        staged.add_guess(f"{name}: rank {rank} is taken from the name of the file")
    return rank


class Import:
    """One import: the logs of the ranks of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._logs: dict[int, _Log] = {}
        self._waiting: list[_Log] = []

    def add_file(self, log: _Log) -> None:
        """One log."""
        if log.rank is None:
            self._waiting.append(log)
        else:
            self._place(log, log.rank)

    def _place(self, log: _Log, rank: int) -> None:
        if rank in self._logs:
            earlier = self._logs[rank].name
            self._sink.add_problem(same_rank(log.name, rank, earlier))
        else:
            self._logs[rank] = log

    def finish(self) -> None:
        """Write every rank, and what was decided about all of them."""
        for log in self._waiting:
            rank = next(r for r in range(len(self._logs) + 1) if r not in self._logs)
            self._sink.add_guess(f"{log.name} names no rank: shown as rank {rank}")
            self._logs[rank] = log
        if not self._logs:
            return
        self._sink.add_guess(
            "the log gives how long the phases of a step took, not when: they are laid end to end "
            "(data, compute, communication, wait); compute is forward, backward and optimizer in "
            "one and shown as forward"
        )
        if all(log.has_times for log in self._logs.values()):
            self._sink.add_guess("the field ts is taken as the time at which its step ended")
        else:
            self._sink.add_guess("not every line has a time: every step begins at 0")
            self._sink.set_clock("per_step_relative")
        longer = sum(log.num_longer for log in self._logs.values())
        if longer:
            self._sink.add_guess(f"in {longer:,} steps the phases add up to more than the step")
        for rank, log in sorted(self._logs.items()):
            self._write(log, rank)

    def _write(self, log: _Log, rank: int) -> None:
        relative = not all(other.has_times for other in self._logs.values())
        for step, phases in log.steps.items():
            at_ns = 0 if relative else phases["end_ns"] - phases["dur_ns"]
            phases["start_ns"] = at_ns
            for (_, kind, name), dur_ns in zip(PHASES, phases["phases_ns"], strict=True):
                if dur_ns is not None:
                    log.spans.add(at_ns, dur_ns, kind, name, "step", step)
                    at_ns += dur_ns
        starts = [phases["start_ns"] for phases in log.steps.values()]
        ends = [phases["start_ns"] + phases["dur_ns"] for phases in log.steps.values()]
        info = rank_info(
            rank,
            world_size=log.world_size,
            host=log.host,
            started_ns=min(starts),
            ended_ns=max(ends),
        )
        self._sink.add_rank(info)
        log.spans.write(self._sink, rank, times_restart=relative)
        columns: dict[str, Any] = {"rank": rank, "step": list(log.steps)}
        for name in ("start_ns", "dur_ns", *_NUMBERS):
            columns[name] = [phases[name] for phases in log.steps.values()]
        self._sink.add_rows("steps", rank, rows("steps", len(log.steps), columns))
        if not relative:
            add_imported_clock(self._sink, rank, min(starts))


def _take(log: _Log, line: Line, ranks: set[int]) -> bool:
    """Keep one line; False where it is no line of a phase log."""
    step = line.get("step")
    if type(step) is not int or not 0 <= step < MAX_STEP or not _is_line(line):
        return False
    phases_ns = [_ns(line.get(key)) for key, _, _ in PHASES]
    sum_ns = sum(ns for ns in phases_ns if ns is not None)
    dur_ns = _ns(line.get("step_ms"))
    rank = line.get("rank")
    if rank is not None and (type(rank) is not int or not 0 <= rank < limits().max_ranks):
        return False
    if len(log.steps) >= limits().max_rows:
        most = f"{variable('max_rows')}={limits().max_rows}"
        raise ValueError(f"has more steps than {most}; raise the limit to read it")
    if rank is not None:
        ranks.add(rank)
    if step in log.steps:
        log.num_again += 1
        return True
    log.num_longer += dur_ns is not None and sum_ns > dur_ns + 1_000_000
    end_ns = _unix_ns(line.get("ts"))
    log.has_times &= end_ns is not None
    log.steps[step] = {
        "phases_ns": phases_ns,
        "dur_ns": sum_ns if dur_ns is None else dur_ns,
        "end_ns": end_ns,
        **{name: _finite(line.get(name)) for name in _NUMBERS},
    }
    _learn(log, line)
    return True


def _learn(log: _Log, line: Line) -> None:
    world_size, node = line.get("world_size"), line.get("node_rank")
    if type(world_size) is int and 0 < world_size <= limits().max_ranks:
        log.world_size = world_size
    host = line.get("hostname", line.get("host"))
    if isinstance(host, str):
        log.host = host[:256]
    elif type(node) is int and 0 <= node < limits().max_ranks:
        log.host = f"node {node}"


def _finite(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) < 1e300:  # type: ignore[arg-type]
        return None
    return float(value)  # type: ignore[arg-type]


def _ns(milliseconds: object) -> int | None:
    """Nanoseconds; None for what is no duration."""
    value = _finite(milliseconds)
    return None if value is None or not 0 <= value < _LONGEST_MS else round(value * 1e6)


def _unix_ns(seconds: object) -> int | None:
    """Unix ns from seconds, to the microsecond that a float of this size keeps."""
    value = _finite(seconds)
    if value is None or not 0 < value < 2**33:
        return None
    whole, part = math.floor(value), value - math.floor(value)
    return whole * 10**9 + round(part * 1e6) * 1000

"""Lines of logs with what they mean and when they were written, on one clock as far as it is known.

The time of a line is an interval: a line that says when is as exact as its digits; one that
inherits its time from the line before may have come at any moment until the next line that has one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from diagnosis.first_cause.origins import origin_of
from trace_hooks.log_text.label import Label
from trace_hooks.log_text.labels import LABELS, label_of

LINES, ENDS, PROCESSES = "labelled_log_lines", "rank_ends", "logged_processes"

UNKNOWN_CLOCK_NS = 5 * 10**9
"""By so much clocks of hosts may differ that nobody compared: NTP keeps them within seconds."""

MOST_BETWEEN = 8
"""Lines that belong together stand as close, though other ranks write into the same file."""

_SECOND_NS = 10**9
_FINE_NS = 10**7


@dataclass(frozen=True)
class Line:
    """A line or block. `begin_ns` and `end_ns`: when it was written, at the earliest and latest, on
    the aligned clock; infinite where unknown. `went_on`: how long its rank went on as usual.
    `before`: the line just before it; `usual_after`: lines of level info that its rank wrote later.
    `pid`: of the process that its text names.
    """

    rank: int
    host: str | None
    begin_ns: float
    end_ns: float
    err_ns: float
    stream: str
    file: str
    number: int
    level: str
    label: Label | None
    text: str
    went_on_ns: float = 0.0
    went_on_lines: int = 0
    count: int = 1
    before: str = ""
    usual_after: int = 0
    pid: int | None = None

    @property
    def name(self) -> str:
        """Name of its label, '' without one."""
        return self.label.name if self.label else ""

    @property
    def role(self) -> str:
        """Of its label, '' without one."""
        return self.label.role if self.label else ""

    @property
    def is_of_kernel(self) -> bool:
        """Whether a kernel wrote it."""
        return self.stream == "kernel"

    def _shares_order_with(self, other: Line) -> bool:
        """Whether the order of both in their file is that in which they were written: those of a
        rank, and those of a host's kernel.
        """
        if not self.file or (self.file, self.rank) != (other.file, other.rank):
            return False
        return self.rank >= 0 or (self.is_of_kernel and other.is_of_kernel)

    def where(self) -> str:
        """File and number, or that the hooks recorded it."""
        return f"{self.file}:{self.number}" if self.file else "recorded when the process ended"

    def is_before(self, other: Line) -> bool:
        """Whether it was certainly written before another one; a rank writes a file in order."""
        if self._shares_order_with(other):
            return self.number < other.number
        slack_ns = 0.0 if self.host == other.host else self.err_ns + other.err_ns
        return self.end_ns + slack_ns < other.begin_ns


def lines_of(tables: Mapping[str, pa.Table]) -> list[Line]:
    """Lines of LINES, and what ended ranks from ENDS, in the order of their times."""
    hosts = {row["rank"]: row["host"] for row in tables[ENDS].to_pylist()}
    logged = [_line(row, hosts) for row in tables[LINES].to_pylist()]
    lines = [*logged, *_without_doubles(_ends(tables[ENDS].to_pylist()), logged)]
    return sorted(lines, key=lambda line: (line.begin_ns, line.file, line.number))


def _line(row: Mapping[str, Any], hosts: Mapping[int, str | None]) -> Line:
    text = row["text"] or ""
    name = label_of(text) or row["label"] or ""
    begin_ns, end_ns = _interval(row)
    origin = origin_of(text)
    rank = origin.rank if origin.is_sure or row["rank"] < 0 else row["rank"]
    return Line(
        rank=rank,
        host=origin.host or row["host"] or hosts.get(rank),
        begin_ns=begin_ns,
        end_ns=end_ns,
        err_ns=UNKNOWN_CLOCK_NS if row["err_ns"] is None else row["err_ns"],
        stream=row["stream"] or "",
        file=row["file"] or "",
        number=row["line"],
        level=row["level"] or "",
        label=LABELS.get(name),
        text=text,
        went_on_ns=row["went_on_ns"] or 0.0,
        went_on_lines=row["went_on_lines"] or 0,
        count=row["count"],
        before=_just_before(row),
        usual_after=row["usual_after"] or 0,
        pid=origin.pid,
    )


def _just_before(row: Mapping[str, Any]) -> str:
    """The line before it, where no more than a few lines of others stand between."""
    gap = row["line"] - (row["before_line"] or 0)
    return (row["before"] or "") if gap <= MOST_BETWEEN else ""


def _interval(row: Mapping[str, Any]) -> tuple[float, float]:
    at_ns = row["ts_ns"]
    if at_ns is None:
        return -math.inf, math.inf
    if row["timed"] == "own":
        exact_ns = _SECOND_NS if at_ns % _SECOND_NS == 0 else _FINE_NS
        return float(at_ns), float(at_ns + exact_ns)
    until_ns = row["until_ns"]
    return float(at_ns), math.inf if until_ns is None else float(max(until_ns, at_ns))


def _ends(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Exceptions that the hooks recorded as the end of a rank."""
    found = []
    for row in rows:
        if row["status"] != "failed" or not row["error"]:
            continue
        at_ns = row["ended_ns"]
        label = LABELS.get(label_of(row["error"]))
        begin_ns, end_ns = (-math.inf, math.inf) if at_ns is None else (at_ns - _FINE_NS, at_ns)
        err_ns = UNKNOWN_CLOCK_NS if row["err_ns"] is None else row["err_ns"]
        found.append(
            Line(
                row["rank"], row["host"], float(begin_ns), float(end_ns), float(err_ns), "hooks",
                "", 0, "error", label, row["error"],
            )
        )  # fmt: skip
    return found


def _without_doubles(ends: Iterable[Line], logged: list[Line]) -> list[Line]:
    """Ends whose exception no log of their rank has; others give that line its time."""
    kept = []
    for end in ends:
        same = [
            index
            for index, line in enumerate(logged)
            if line.rank == end.rank and line.label is end.label and line.label is not None
        ]
        if not same:
            kept.append(end)
        elif math.isinf(logged[same[-1]].end_ns):
            at = same[-1]
            logged[at] = replace(logged[at], begin_ns=end.begin_ns, end_ns=end.end_ns)
    return kept

"""Spans of the hooks against the work of the device that was launched inside them.

Each span is numbered where the hooks open and close it: the number goes into torch.profiler's trace
as two marks and into the column `args` of the span's row. So the two are compared span by span, by
what the host launched between the marks, whatever the clocks of the two say.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa
from torch.profiler import record_function

from benchmarks.gpu.profiled import Profile
from trace_hooks.recording.recorder import Extra, Mark, Recorder
from trace_hooks.schema import UNKNOWN

_OPEN, _CLOSE = "rankscope open ", "rankscope close "


class Compared(NamedTuple):
    """A span and the device's work in it, us."""

    kind: str
    name: str
    span_us: float
    work_us: float  # from the begin of the first kernel to the end of the last one
    busy_us: float  # in which at least one kernel ran
    late_us: float  # the end of the span after that of the last kernel, each by its own clock

    @property
    def error_us(self) -> float:
        """What the span has beyond the work; below 0 it is too short."""
        return self.span_us - self.work_us


@contextmanager
def numbered(recorder: Recorder) -> Iterator[None]:
    """Number every span that is opened meanwhile."""
    numbers = count()
    opened: dict[int, tuple[int, Mark]] = {}  # by id of the mark, which is kept alive

    def open_() -> Mark:
        mark = Recorder.open(recorder)
        number = next(numbers)
        opened[id(mark)] = number, mark
        with record_function(f"{_OPEN}{number}"):
            return mark

    def close(
        site: int,
        mark: Mark,
        microbatch: int = UNKNOWN,
        recompute: bool = False,
        extra: Extra | None = None,
    ) -> None:
        number, _ = opened.pop(id(mark), (None, mark))
        if number is not None:
            extra = (extra or Extra())._replace(args=str(number))
            with record_function(f"{_CLOSE}{number}"):
                pass
        Recorder.close(recorder, site, mark, microbatch, recompute, extra)

    watched: Any = recorder
    watched.open, watched.close = open_, close
    try:
        yield
    finally:
        del watched.open, watched.close


def compared(spans: pa.Table, profile: Profile) -> list[Compared]:
    """Spans with work in them; `spans`: rows that the hooks wrote. Those of the first step are left
    out where there are steps: the profiler itself has things to do for the first time.
    """
    first_us = profile.steps[0][1] if profile.steps else float("-inf")
    work = sorted(profile.work, key=lambda item: item.launched_us)
    launched = [item.launched_us for item in work]
    columns = ["kind", "name", "ts_ns", "dur_ns", "args"]
    pairs = []
    for row in spans.select(columns).to_pylist():
        begin_us = profile.marks.get(f"{_OPEN}{row['args']}")
        end_us = profile.marks.get(f"{_CLOSE}{row['args']}")
        if begin_us is None or end_us is None or begin_us < first_us:
            continue
        inside = work[bisect.bisect_left(launched, begin_us) : bisect.bisect(launched, end_us)]
        if not inside:
            continue
        last_us = max(item.end_us for item in inside)
        pairs.append(
            Compared(
                row["kind"],
                row["name"],
                row["dur_ns"] / 1e3,
                last_us - min(item.begin_us for item in inside),
                busy_us([(item.begin_us, item.end_us) for item in inside]),
                (row["ts_ns"] + row["dur_ns"] - profile.base_ns) / 1e3 - last_us,
            )
        )
    return pairs


def busy_us(intervals: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total

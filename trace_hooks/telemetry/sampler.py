"""Reads the machine in time, once a second, and keeps what is due to be written.

A source that fails is switched off for RETRY_S, with the reason in the state of its metric
SOURCE_readable; the others go on. One whose reading costs more than SHARE of a core is read more
seldom, so that the sampler stays cheap on hosts with hundreds of cores.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trace_hooks.telemetry.names import HOST, METRICS, Pace, readable_name
from trace_hooks.telemetry.reading import NAN, Reading, Source, SourceError, reason_of
from trace_hooks.telemetry.sample_rows import SampleRows, Series

RETRY_S = 60.0
MINUTE_S = 60.0
SHARE, MOST_SELDOM_S = 5e-4, 30.0
"""Of a core, for one source; one that costs more is read more seldom, down to this."""

_TOLERANCE_S = 0.05
"""A source is due this much before its time: rounds are not exact."""
_LONGEST_REASON = 200


@dataclass
class _Part:
    """One source, and when it is read."""

    source: Source
    due_s: float = 0.0
    cost_s: float = 0.0
    num_reads: int = 0

    def was_read(self, now_s: float, cost_s: float) -> None:
        """Choose the next time. The first reading opens files, so its cost tells nothing."""
        self.num_reads += 1
        self.cost_s = cost_s if self.num_reads <= 2 else 0.9 * self.cost_s + 0.1 * cost_s
        seldom_s = self.cost_s / SHARE if self.num_reads > 1 else 0.0
        self.due_s = now_s + max(self.source.every_s, min(seldom_s, MOST_SELDOM_S)) - _TOLERANCE_S


@dataclass(frozen=True)
class Round:
    """One round: its time, on two clocks, and the optimizer step of the host and of each rank."""

    now_s: float
    ts_ns: int
    step: int = -1
    steps: Mapping[int, int] = field(default_factory=dict)


class Sampler:
    """The sources of one host. `rows`: what is to be written."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._parts = [_Part(source) for source in sources]
        self._last: dict[tuple[str, str, int], _Last] = {}
        self._last_round_s: float | None = None
        self.rows = SampleRows()

    def sample(self, this: Round) -> None:
        """Read what is due, and keep what has to be written."""
        late_s = this.now_s - self._last_round_s - 1.0 if self._last_round_s is not None else 0.0
        self._last_round_s = this.now_s
        for part in self._parts:
            if this.now_s >= part.due_s:
                self._read(this, part)
        own = (
            Reading(HOST, "watchdog_cpu_seconds_total", time.process_time()),
            Reading(HOST, "sampler_late_seconds", float(max(round(late_s), 0))),
        )
        for reading in own:
            self._keep(this, this.ts_ns, "host", reading)

    def _read(self, this: Round, part: _Part) -> None:
        source, began_s = part.source, time.thread_time()
        try:
            readings = list(source.read())
        except (SourceError, OSError, ValueError, LookupError) as error:
            part.due_s = this.now_s + RETRY_S
            reason = reason_of(error)[:_LONGEST_REASON]
            readings = [Reading(HOST, readable_name(source.name), NAN, reason)]
        else:
            part.was_read(this.now_s, time.thread_time() - began_s)
            if readings:
                readings.append(Reading(HOST, readable_name(source.name), 1.0))
        for reading in readings:
            self._keep(this, source.read_ns or this.ts_ns, source.scope, reading)

    def _keep(self, this: Round, ts_ns: int, scope: str, reading: Reading) -> None:
        device, metric, value, reason, rank = reading
        last = self._last.get((device, metric, rank))
        if last is None:
            series = Series(device, metric, scope, rank)
            last = self._last[device, metric, rank] = _Last(series, METRICS[metric].pace)
        elif not last.is_due(value, reason, this.now_s):
            return
        last.value, last.reason, last.written_s = value, reason, this.now_s
        state = f"unreadable: {reason}" if reason else ("value" if value else "zero")
        step = this.step if rank < 0 else this.steps.get(rank, this.step)
        self.rows.add((ts_ns, step, last.series, value, state))


@dataclass(slots=True)
class _Last:
    """What was written last of a series."""

    series: Series
    pace: Pace
    value: float = NAN
    reason: str = ""
    written_s: float = 0.0

    def is_due(self, value: float, reason: str, now_s: float) -> bool:
        """Whether the value has to be written."""
        if not reason and not self.reason and self.pace == "second":
            return True
        if now_s - self.written_s >= MINUTE_S - _TOLERANCE_S:
            return True
        if reason or self.reason:
            return reason != self.reason
        return self.pace == "change" and value != self.value

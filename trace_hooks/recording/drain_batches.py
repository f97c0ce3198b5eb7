"""Empties the recorder into Arrow tables; holds device spans back until the device has got there.

Drain thread only. Everything that waits is bounded: beyond a bound rows are dropped and counted, so
that neither a hung disk nor a stuck device takes the job's memory.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import Any

import pyarrow as pa

from trace_hooks.recording import guard
from trace_hooks.recording.arrow_columns import PIECE_SPANS, collective_table, good_rows, span_table
from trace_hooks.recording.clock import LOST, Anchor, now
from trace_hooks.recording.held_spans import HeldSpans
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS

MAX_WAITING = 200_000
"""Device spans held back at most; beyond it the oldest are dropped and counted."""

LAST_WAIT_S = 2.0
"""The end of a recording waits this long for the device to catch up with the host."""

_ON_DEVICE = frozenset(COMPUTE_KINDS + COMM_KINDS)
"""Kinds whose work the accelerator does; the others are the host's even in an accelerator job."""

_EVENT = SpanRow._fields.index("begin_event")


class Batches:
    """Rows taken from a recorder, by table, until a writer takes them."""

    def __init__(
        self, recorder: Recorder, anchor: Anchor, sampling: StepSampling | None = None
    ) -> None:
        self._recorder = recorder
        self._anchor = anchor
        leaves_out = sampling is not None and sampling.leaves_out
        self._held = HeldSpans(sampling) if sampling is not None and leaves_out else None
        self._waiting: dict[int, deque[SpanRow]] = defaultdict(deque)  # by stream
        self._num_waiting = 0
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)  # not yet converted
        self.tables: dict[str, list[pa.Table]] = defaultdict(list)

    def num_rows(self) -> int:
        """Rows collected and not yet taken."""
        converted: int = sum(table.num_rows for tables in self.tables.values() for table in tables)
        return converted + sum(map(len, self._rows.values()))

    def waiting_rows(self) -> int:
        """Rows still in the recorder's lists."""
        recorder = self._recorder
        return len(recorder.spans) // SPAN_FIELDS + len(recorder.collectives) + len(recorder.rows)

    def collect(self, last: bool = False, but: frozenset[str] = frozenset()) -> None:
        """Convert everything recorded so far; `last` drops what the device has not reached.

        Rows of the rare tables named in `but` are left for a later call.
        """
        self._collect_rows(but)  # before the spans: all spans of a step that has ended are there
        spans = self._recorder.spans
        end = len(spans) // SPAN_FIELDS * SPAN_FIELDS  # rows added meanwhile wait for the next call
        while end > 0:
            size = min(end, PIECE_SPANS * SPAN_FIELDS)
            piece = spans[:size]
            del spans[:size]
            end -= size
            self._add_spans(piece)
        self._add_resolved()
        if last:
            self._wait_for_device()
            self._collect_rows(but)
        if self._held is not None:
            self._settle(self._held, last)
        self._collect_collectives()

    def take(self) -> dict[str, list[pa.Table]]:
        """Everything converted so far, by table."""
        taken, self.tables = self.tables, defaultdict(list)
        return taken

    def drop(self) -> None:
        """Forget what was converted, and count it."""
        self._recorder.dropped += self.num_rows()
        self.tables = defaultdict(list)
        self._rows.clear()

    def _add_spans(self, piece: list[Any]) -> None:
        events = piece[_EVENT::SPAN_FIELDS]
        if events.count(None) < len(events):
            piece = self._hold_back(piece)
        if piece:
            recorder = self._recorder
            table = span_table(piece, recorder.sites, recorder.thread_name, self._anchor)
            if self._held is not None:
                table = self._held.add(table)
            if table.num_rows:
                self.tables["spans"].append(table)

    def _settle(self, held: HeldSpans, last: bool) -> None:
        """Sum up steps that have ended, where their spans are not published."""
        waiting = [rows[0].step for rows in self._waiting.values() if rows]
        unfinished, at_ns = min(waiting, default=None), self._anchor.unix_ns(now())
        settled = guard.attempt("drain.sums", lambda: held.settle(unfinished, at_ns))
        if settled is None:  # from now on every span is published, and so is what is held
            self._held = None
        for name, table in (settled or {}).items():
            self.tables[name].append(table)
        if last or settled is None:
            for name, table in (guard.attempt("drain.held", held.give_up) or {}).items():
                self.tables[name].append(table)

    def _hold_back(self, piece: list[Any]) -> list[Any]:
        """Set device spans aside; returns the others, flat."""
        clock = self._recorder.device_clock
        ready: list[Any] = []
        for begin in range(0, len(piece), SPAN_FIELDS):
            row = SpanRow(*piece[begin : begin + SPAN_FIELDS])
            if row.begin_event is None or row.end_event is None:
                ready += row
            elif self._recorder.sites[row.site].kind in _ON_DEVICE:
                self._waiting[clock.stream_of(row.end_event)].append(row)
                self._num_waiting += 1
            else:
                self._release(row)
                ready += row
        while self._num_waiting > MAX_WAITING:
            self._drop(max(self._waiting.values(), key=len).popleft())
        return ready

    def _add_resolved(self) -> None:
        done: list[Any] = []
        for stream, waiting in self._waiting.items():
            done += self._resolved(waiting, self._track(stream))
        if done:
            self._add_spans(done)

    def _track(self, stream: int) -> int:
        return self._recorder.track(self._recorder.device_clock.track(stream))

    def _resolved(self, waiting: deque[SpanRow], thread: int) -> list[Any]:
        """Rows of one stream that the device has finished, flat; it finishes them in order."""
        clock = self._recorder.device_clock
        done: list[Any] = []
        for _ in range(self._num_reached(waiting)):
            row = waiting[0]
            stays = clock.stream_of(row.begin_event) == clock.stream_of(row.end_event)
            end_ns = clock.resolve(row.end_event, is_reached=True)
            begin_ns = clock.resolve(row.begin_event, is_reached=stays)
            if begin_ns is None or end_ns is None:
                break
            waiting.popleft()
            if LOST in (begin_ns, end_ns):
                self._drop(row)
                continue
            self._num_waiting -= 1
            self._release(row)
            done += row._replace(
                begin_ns=begin_ns,
                end_ns=max(begin_ns, end_ns),
                thread=thread,
                begin_event=None,
                end_event=None,
            )
        return done

    def _num_reached(self, waiting: deque[SpanRow]) -> int:
        """How many of these rows the device has reached: it is asked about a few of them only."""
        least, most = 0, len(waiting)
        while least < most:
            middle = most - 1 if least == 0 and most == len(waiting) else (least + most) // 2
            if self._recorder.device_clock.is_reached(waiting[middle].end_event):
                least = middle + 1
            else:
                most = middle
        return least

    def _wait_for_device(self) -> None:
        """Give the device a moment to finish; drop what it does not."""
        until_s = time.monotonic() + LAST_WAIT_S
        while self._num_waiting and time.monotonic() < until_s:
            time.sleep(0.005)
            self._add_resolved()
        for waiting in self._waiting.values():
            while waiting:
                self._drop(waiting.popleft())

    def _drop(self, row: SpanRow) -> None:
        """Give up a waiting row; its events are not reused: the device may still reach them."""
        self._num_waiting -= 1
        self._recorder.dropped += 1

    def _release(self, row: SpanRow) -> None:
        clock = self._recorder.device_clock
        clock.release(row.begin_event)
        clock.release(row.end_event)

    def _collect_collectives(self) -> None:
        rows = self._recorder.collectives
        taken = rows[: len(rows)]
        del rows[: len(taken)]
        if taken:
            self.tables["collectives"].append(collective_table(taken, self._anchor))

    def _collect_rows(self, but: frozenset[str]) -> None:
        rows = self._recorder.rows
        taken = rows[: len(rows)]
        del rows[: len(taken)]
        for name, row in taken:
            self._rows[name].append(row)
            if name == "steps" and self._held is not None:
                start_ns = self._anchor.unix_ns(row["start_ns"])
                self._held.end_step(row["step"], start_ns, row["dur_ns"])
        for name in self._rows.keys() - but:
            table = good_rows(name, self._rows.pop(name), self._anchor, self._bad_row)
            if table is not None:
                self.tables[name].append(table)

    def _bad_row(self, error: Exception) -> None:
        self._recorder.dropped += 1
        guard.account.failed("recorder.add_row", error, switch_off=False)

"""Spans of steps that are not published whole, until such a step has ended and is summed up.

Drain thread only. Spans that end later than that are published, and so is everything held where a
step takes unusually long, stays open at the end, or has more spans than may be held: nothing is
lost that could say why.

Shape suffix: S spans.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trace_hooks.recording.arrow_columns import rows_of_columns
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.schema import BEFORE_FIRST_STEP, KINDS, MODES
from trace_hooks.step_sums.intervals import Bools, Ints
from trace_hooks.step_sums.rollups import Spans, Transfers, Windows, rollups

MOST_SPANS = 200_000
"""Held at most, about 100 bytes each."""

LONG_FACTOR, LONG_S = 5, 10.0
"""A step is unusually long from so many times the one before on, but not before so many seconds."""

ALWAYS = ("evaluation", "checkpoint")
"""Kinds that are published in every step: there are few, and they are asked for one by one."""

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class _Window:
    """From the end of the step before to the end of this one, Unix ns."""

    step: int
    begin_ns: int
    end_ns: int


class HeldSpans:
    """The spans of one rank that are not published yet, or that a step to be summed up may need."""

    def __init__(self, sampling: StepSampling) -> None:
        self.sampling = sampling
        self._tables: list[pa.Table] = []
        self._published: list[Bools] = []  # of each table, which rows
        self._ended: deque[_Window] = deque()  # not yet summed up
        self._newest: _Window | None = None  # step that has ended last
        self._first_ns: int | None = None  # begin of the first span
        self._settled = BEFORE_FIRST_STEP  # step that was summed up, or published, last
        self._next_is_whole = False  # something of it was published before it had ended

    def add(self, spans: pa.Table) -> pa.Table:
        """Take spans in; returns those to publish at once."""
        step_S = spans.column("step").to_numpy()
        steps, inverse_S = np.unique(step_S, return_inverse=True)
        is_whole = np.array([self.sampling.is_whole(step) for step in steps.tolist()], dtype=bool)
        goes_S = is_whole[inverse_S.ravel()] | (step_S <= self._settled)
        for kind in ALWAYS:
            goes_S |= _codes(spans, "kind", KINDS) == KINDS.index(kind)
        if self._first_ns is None:
            self._first_ns = int(spans.column("ts_ns").to_numpy().min())
        self._tables.append(spans)
        self._published.append(goes_S)
        return spans.filter(pa.array(goes_S))

    def end_step(self, step: int, start_ns: int, dur_ns: int) -> None:
        """A step has ended: its number, begin (Unix ns) and length."""
        before, end_ns = self._newest, start_ns + dur_ns
        begin_ns = start_ns
        if before is not None:
            follows = before.step == step - 1
            begin_ns = before.end_ns if follows else max(start_ns, before.end_ns)
        if self._next_is_whole:
            self.sampling.ask(step, step)
            self._next_is_whole = False
        self._newest = _Window(step, begin_ns, max(begin_ns, end_ns))
        self._ended.append(self._newest)

    def settle(self, unfinished: int | None, at_ns: int) -> Tables:
        """Sum up the steps that have ended: rows to publish, by table.

        `unfinished`: the earliest step of which a device still has spans; `at_ns`: now, Unix ns.
        """
        ready: list[_Window] = []
        while self._ended and (unfinished is None or self._ended[0].step < unfinished):
            ready.append(self._ended.popleft())
        tables = self._settle(ready) if ready else {}
        held = sum(published.size for published in self._published)
        if held > MOST_SPANS or self._is_long(at_ns):
            tables |= self.give_up(tables.pop("spans", None))
        return tables

    def give_up(self, more: pa.Table | None = None) -> Tables:
        """Publish what is held, with `more` rows: its steps are whole after all."""
        spans, published_S = self._all()
        step_S = spans.column("step").to_numpy() if spans is not None else np.empty(0, dtype=int)
        open_S = step_S[step_S > self._settled]
        running = self._newest.step + 1 if self._newest is not None else 0
        self._next_is_whole = True  # whatever its number
        self.sampling.ask(int(open_S.min(initial=running)), int(open_S.max(initial=running)))
        self._tables, self._published = [], []
        rows = [] if spans is None else [spans.filter(pa.array(~published_S))]
        rows += [] if more is None else [more]
        return _spans(rows)

    def _is_long(self, at_ns: int) -> bool:
        last = self._newest or _Window(BEFORE_FIRST_STEP, 0, self._first_ns or at_ns)
        if self.sampling.is_whole(last.step + 1):
            return False
        usual_ns = 0 if self._newest is None else LONG_FACTOR * (last.end_ns - last.begin_ns)
        return at_ns - last.end_ns > max(usual_ns, LONG_S * 1e9)

    def _settle(self, ready: list[_Window]) -> Tables:
        spans, published_S = self._all()
        self._settled = ready[-1].step
        whole = [window for window in ready if self.sampling.is_whole(window.step)]
        left_out = [window for window in ready if window not in whole]
        self.sampling.passed(self._settled)
        tables = _sums(spans, left_out) if left_out else {}
        if spans is None:
            return tables
        begin_S = spans.column("ts_ns").to_numpy()
        end_S, step_S = begin_S + spans.column("dur_ns").to_numpy(), spans.column("step").to_numpy()
        goes_S = np.zeros(begin_S.size, dtype=bool)
        for window in whole:
            goes_S |= (begin_S < window.end_ns) & (end_S > window.begin_ns)
            goes_S |= step_S == window.step
        goes_S &= ~published_S
        stays_S = (end_S > ready[-1].end_ns) | (step_S > self._settled)
        self._tables = [spans.filter(pa.array(stays_S))]
        self._published = [(published_S | goes_S)[stays_S]]
        return tables | _spans([spans.filter(pa.array(goes_S))])

    def _all(self) -> tuple[pa.Table | None, Bools]:
        if not self._tables:
            return None, np.empty(0, dtype=bool)
        return pa.concat_tables(self._tables).unify_dictionaries(), np.concatenate(self._published)


def _spans(rows: list[pa.Table]) -> Tables:
    rows = [table for table in rows if table.num_rows]
    return {"spans": pa.concat_tables(rows).unify_dictionaries()} if rows else {}


def _indices(spans: pa.Table, name: str) -> Ints:
    """A column of words as indices into its dictionary; all its chunks have the same one."""
    parts = [part.indices.to_numpy().astype(np.int64) for part in spans.column(name).chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _codes(spans: pa.Table, name: str, words: tuple[str, ...]) -> Ints:
    """A column of words as indices into `words`."""
    chunks = spans.column(name).chunks
    if not chunks:
        return np.empty(0, dtype=np.int64)
    code_of = {word: code for code, word in enumerate(words)}
    codes = [code_of[word] for word in chunks[0].dictionary.to_pylist()]
    return np.array(codes, dtype=np.int64)[_indices(spans, name)]


def _arrays(spans: pa.Table) -> Spans:
    step_S = spans.column("step").to_numpy()
    return Spans(
        rank_S=np.zeros(step_S.size, dtype=np.int64),
        step_S=step_S,
        ts_S=spans.column("ts_ns").to_numpy(),
        dur_S=np.maximum(spans.column("dur_ns").to_numpy(), 0),
        cpu_S=spans.column("cpu_ns").to_numpy(),
        kind_S=_codes(spans, "kind", KINDS),
        mode_S=_codes(spans, "mode", MODES),
        track_S=_indices(spans, "track"),
        recompute_S=spans.column("recompute").to_numpy(),
    )


def _sums(spans: pa.Table | None, windows: list[_Window]) -> Tables:
    """Rows of step_sums and kind_sums, as the index would compute them of the spans."""
    step_C = np.array([window.step for window in windows], dtype=np.int64)
    begin_C = np.array([window.begin_ns for window in windows], dtype=np.int64)
    cells = Windows(
        rank_C=np.zeros(step_C.size, dtype=np.int64),
        step_C=step_C,
        begin_C=begin_C,
        end_C=np.array([window.end_ns for window in windows], dtype=np.int64),
        finished_C=np.ones(step_C.size, dtype=bool),
    )
    arrays = Spans.none() if spans is None else _arrays(spans)
    no_collective_C = np.zeros(step_C.size, dtype=bool)
    found = rollups(arrays, cells, Transfers.none(), False, no_collective_C)
    kinds = dict(found.kinds)
    order_C = np.argsort(step_C, kind="stable")  # a job may number its steps from 0 again
    kinds["ts_ns"] = begin_C[order_C[np.searchsorted(step_C[order_C], kinds["step"])]]
    return {
        "step_sums": rows_of_columns("step_sums", {**found.steps, "ts_ns": begin_C}),
        "kind_sums": rows_of_columns("kind_sums", kinds),
    }

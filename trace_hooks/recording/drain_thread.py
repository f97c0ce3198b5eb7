"""The thread that writes: empties the recorder, publishes segments, records heartbeats.

At most about a second of steps, spans and collectives is ever unwritten. Training never waits for
this thread, except at the end and then for a bounded time.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - pyarrow imports it late, when no thread may start
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trace_hooks.recording import guard
from trace_hooks.recording.account import DRAIN, Stretch, source_of
from trace_hooks.recording.clock import Anchor, now, thread_cpu
from trace_hooks.recording.drain_batches import Batches
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.segment_writer import Writer
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.recording.wakeup import Wakeup

TICK_S = 0.2

FLUSH_S = 0.7
"""A flush at this interval keeps unwritten rows below one second, but for SELDOM."""

FLUSH_ROWS = 50_000
"""This many rows are flushed at once: a busy rank writes more segments, not larger ones."""

SELDOM = frozenset(
    (
        "heartbeats",
        "hook_costs",
        "memory",
        "data_batches",
        "batch_lengths",
        "batch_sources",
        "loader_fetches",
        "loader_memory",
        "loader_standby",
        "clocks",
        "tensor_stats",
        "attention_stats",
    )
)
SELDOM_S = 3.0
"""These tables are flushed at this interval: a file costs a rank about a millisecond whatever is in
it, and no page needs their newest rows at once."""

IDLE_FLUSH_S = 5.0
"""They are flushed at this interval where no other table has rows."""

BEAT_S = 1.0

COSTS_S = 10.0
"""The cost of each source is written at this interval."""

MAX_HELD_ROWS = 300_000
"""Rows kept while run and attempt are unknown; beyond it they are dropped and counted."""


@dataclass(frozen=True)
class Chore:
    """A job that the drain thread does at an interval; an error in it is counted."""

    name: str
    run: Callable[[], object]
    every_s: float = 0.0
    stays_on: bool = True  # after an error


class Drain:
    """The drain thread of one tracer."""

    def __init__(
        self, recorder: Recorder, anchor: Anchor, sampling: StepSampling | None = None
    ) -> None:
        """`sampling`: which steps have their spans published; None all."""
        self.wakeup = Wakeup()
        self.writer: Writer | None = None  # set once the identity is known
        self.chores: list[Chore] = []
        self.on_terminate: Callable[[], object] = int  # SIGTERM has arrived
        self.at_end: Callable[[], object] = int  # before the last flush
        self.after_end: Callable[[], object] = int  # after it
        self._recorder = recorder
        self._batches = Batches(recorder, anchor, sampling)
        self._due_s: dict[str, float] = {}
        self._last_flush_s = time.monotonic()
        self._time = Stretch(guard.account, DRAIN)
        self._stopping = False
        self.finished = threading.Event()  # the last turn is over: nothing more is written
        self._thread = threading.Thread(target=self._run, name=DRAIN, daemon=True)

    def start(self) -> None:
        """Start the thread; raises RuntimeError where the system has none to give."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Write everything and end; False where that takes longer, and the thread goes on alone."""
        self._stopping = True
        self.wakeup.wake()
        if self._thread is threading.current_thread():
            self.finish()
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Close the descriptors once the thread has ended; a late thread still uses them."""
        if not self._thread.is_alive():
            self.wakeup.close()

    @property
    def dropped(self) -> int:
        """Rows lost so far, for whatever reason."""
        return self._recorder.dropped + (self.writer.dropped if self.writer else 0)

    def finish(self) -> None:
        """The last turn (drain thread)."""
        guard.attempt("drain.beat", self._beat, switch_off=False)
        guard.attempt("drain.costs", self._add_costs, switch_off=False)
        guard.attempt("drain.end", lambda: self.at_end(), switch_off=False)
        guard.attempt("drain.flush", lambda: self._flush(last=True), switch_off=False)
        if self.writer is not None:
            guard.attempt("drain.published", self.writer.finish, switch_off=False)
        guard.attempt("drain.after_end", lambda: self.after_end(), switch_off=False)
        self.finished.set()

    def _run(self) -> None:
        while not self._stopping:
            signals = self.wakeup.wait(TICK_S)
            self._time.charge("waiting")
            if signal.SIGTERM in signals:
                guard.attempt("drain.terminate", lambda: self.on_terminate(), switch_off=False)
            self._turn()
        self.finish()

    def _turn(self) -> None:
        for chore in self.chores:
            if self._is_due(chore.name, chore.every_s):
                guard.attempt(chore.name, chore.run, switch_off=not chore.stays_on)
                self._time.charge(source_of(chore.name))
        if self._is_due("drain.beat", BEAT_S):
            guard.attempt("drain.beat", self._beat, switch_off=False)
            if self._is_due("drain.costs", COSTS_S):
                guard.attempt("drain.costs", self._add_costs, switch_off=False)
            self._time.charge("heartbeats")
        busy = self._batches.waiting_rows() >= FLUSH_ROWS
        if busy or time.monotonic() - self._last_flush_s >= FLUSH_S:
            guard.attempt("drain.flush", self._flush, switch_off=False)
            self._time.charge("writing")

    def _is_due(self, name: str, every_s: float) -> bool:
        seconds = time.monotonic()
        if seconds < self._due_s.get(name, 0.0):
            return False
        self._due_s[name] = seconds + every_s
        return True

    def _beat(self) -> None:
        account = guard.account
        for hook, error in account.take_news():
            text = f"hook {hook} failed: {error}"
            self._recorder.add_row("marks", ts_ns=now(), kind="hook_error", text=text)
        self._recorder.add_row(
            "heartbeats",
            ts_ns=now(),
            phase=self._recorder.rank_state.phase,
            last_op=self._recorder.rank_state.last_op,
            self_ns=account.total_ns,
            dropped=self.dropped,
            hook_errors=sum(account.errors.values()),
            files=self.writer.num_files if self.writer is not None else 0,
            host_files=self.writer.num_host_files if self.writer is not None else None,
        )

    def _add_costs(self) -> None:
        at_ns, name_of = now(), self._recorder.thread_name
        for spent in (guard.account.on_training, guard.account.on_own_threads):
            for (thread, source), cpu_ns in spent.by_thread_and_source().items():
                name = thread if isinstance(thread, str) else name_of(thread)
                self._recorder.add_row(
                    "hook_costs", ts_ns=at_ns, thread=name, source=source, cpu_ns=cpu_ns
                )

    def _flush(self, last: bool = False) -> None:
        seconds = time.monotonic()
        is_early = seconds - self._last_flush_s < IDLE_FLUSH_S
        self._batches.collect(last, frozenset() if last else SELDOM)
        if not last and not self._batches.tables and is_early:
            return
        self._last_flush_s = seconds
        if not last and self._is_due("drain.seldom", SELDOM_S):
            self._batches.collect()
        if self.writer is None:
            if last or self._batches.num_rows() > MAX_HELD_ROWS:
                self._batches.drop()
            return
        tables = self._batches.take()
        frames = tables.pop("frames", None)
        self.writer.write_all(tables)
        if frames:
            begun_ns = thread_cpu()
            self.writer.write("frames", frames)
            self._recorder.rank_state.frames_ns += thread_cpu() - begun_ns

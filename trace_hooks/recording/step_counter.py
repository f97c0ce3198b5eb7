"""Counts optimizer steps and writes their rows, with what the job logged about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from trace_hooks.recording.clock import now
from trace_hooks.recording.logged_values import Value, read_values
from trace_hooks.recording.recorder import Recorder
from trace_hooks.schema.bounds import LARGEST

LATE_S = 0.6
"""A finished step's row waits this long for numbers that are logged right after the step."""

HELD_S = 60.0
"""As LATE_S, where it is known that numbers will be logged: once the device has computed them."""

LOCK_S = 0.5
"""The drain thread waits this long for the lock. A signal handler that stops the tracer waits
for the drain thread, and may have interrupted the training thread while that held the lock."""


class StepRow:
    """One step, running or finished, and what was logged about it."""

    def __init__(self, number: int, start_ns: int) -> None:
        self.number = number
        self.start_ns = start_ns
        self.end_ns: int | None = None
        self.values: dict[str, Value] = {}
        self.batch_tokens = 0  # of the batches that were read in it
        self.late_s = LATE_S


class StepCounter:
    """Implements sources.context.Steps; `on_begin` and `on_end` are called at each border."""

    def __init__(
        self, recorder: Recorder, on_begin: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        self.explicit = False
        self.between: Callable[[], object] | None = None
        self._recorder = recorder
        self._rank_state = recorder.rank_state
        self._on_begin, self._on_end = on_begin, on_end
        self._next = 0
        self._running: StepRow | None = None
        self._ended = self._rank_state.step  # number of the step that has ended last
        self._finished: list[StepRow] = []  # not yet written, oldest first
        self._early: dict[str, Value] = {}  # logged before the first step
        # between training and drain thread, about _finished only; re-entrant for signal handlers
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether a step is running."""
        return self._running is not None

    def begin(self, number: int | None = None, at_ns: int | None = None) -> None:
        """A step begins (at a clock.now() reading, default now), ending one that still runs.

        Raises ValueError for a number that no column can hold.
        """
        if number is not None:
            number = _checked(number)
        start_ns = now() if at_ns is None else at_ns
        if self._running is not None:
            self.end(start_ns)
        self.publish(everything=True)
        start_ns = max(start_ns, self._rank_state.evaluated_ns)
        number = self._next if number is None else number
        self._next = number + 1
        self._running = StepRow(number, start_ns)
        self._running.values.update(self._early)
        self._early.clear()
        self._rank_state.step = number
        self._rank_state.phase = "step"
        self._rank_state.evaluating_thread = 0  # an exception may have left its span open
        self._recorder.device_clock.begin_step()
        self._on_begin()

    def end(self, at_ns: int | None = None) -> None:
        """The running step ends; without one nothing happens."""
        row = self._running
        if row is None:
            return
        self.go_on()
        self._on_end()
        self._ended = row.number
        row.end_ns = now() if at_ns is None else at_ns
        self._running = None
        self._rank_state.phase = "data"
        with self._lock:
            self._finished.append(row)

    def extend(self, at_ns: int) -> None:
        """The step that has just ended goes on until then, unless its row is written already."""
        with self._lock:
            if self._running is None and self._finished:
                self._finished[-1].end_ns = at_ns

    def renumber(self, number: int) -> None:
        """The running automatic step, else the next one, has this number.

        Nothing happens where the user numbers the steps, and where that number is that of an
        earlier step: a second training in one process goes on with the numbers of the first.
        """
        running = self._running
        if self.explicit or number < (self._next if running is None else running.number):
            return
        self._next = _checked(number)
        if running is not None:
            if self._rank_state.step == running.number:
                self._rank_state.step = self._next
            running.number = self._next
            self._next += 1

    def hold(self) -> None:
        """Numbers of the step that has just ended will be logged later than usual."""
        with self._lock:
            if self._running is None and self._finished:
                self._finished[-1].late_s = HELD_S

    def postpone(self, at_ns: int) -> None:
        """The running step begins then: what lay before it is known now."""
        if self._running is not None:
            self._running.start_ns = at_ns

    def step_back(self) -> None:
        """The running step has not trained yet: what follows has the number of the one before."""
        if self._running is not None:
            self._rank_state.step = self._ended
            self._rank_state.phase = "data"

    def go_on(self) -> None:
        """What follows is part of the running step."""
        if self._running is not None:
            self._rank_state.step = self._running.number
            self._rank_state.phase = "step"

    def forget(self) -> None:
        """Drop the running step: the user marks steps, or it was not one.

        Its number is the next one again.
        """
        if self._running is not None:
            self._next = self._running.number
            self._rank_state.step = self._ended
        self._running = None

    def log(self, values: dict[str, Any]) -> None:
        """Attach numbers to the running step, else to the one that has just ended.

        Raises ValueError for a name that is not in LOGGED, a value that is not a number, and a step
        whose row is written already. Those left out for their name or value cost no other.
        """
        read, problems = read_values(values)
        self._attach(read)
        if problems:
            raise ValueError("; ".join(problems))

    def suggest(self, values: dict[str, Any]) -> None:
        """As `log`, for what the job itself does not log."""
        read, _ = read_values(values)
        row = self._running or (self._finished[-1] if self._finished else None)
        logged = row.values if row is not None else {}
        self._attach({name: value for name, value in read.items() if name not in logged})

    def _attach(self, read: dict[str, Value]) -> None:
        if not read:
            return
        if self._running is not None:
            self._running.values.update(read)
            return
        if self._next == 0:
            self._early.update(read)
            return
        with self._lock:
            if not self._finished:
                raise ValueError(
                    "the last step's row is written; log before or right after its end"
                )
            self._finished[-1].values.update(read)
            self._finished[-1].late_s = LATE_S

    def count_tokens(self, tokens: int) -> None:
        """Tokens of a batch of the running step, for a job that logs none."""
        if self._running is not None:
            self._running.batch_tokens += tokens

    def publish(self, everything: bool = False) -> None:
        """Write the rows of steps that are complete: ended a while ago, all their values known."""
        now_ns = now()
        if not self._lock.acquire(timeout=LOCK_S):
            return
        try:
            while self._finished and self._is_complete(self._finished[0], now_ns, everything):
                self._write(self._finished.pop(0))
        finally:
            self._lock.release()

    def publish_last(self, patience_s: float = 1.0) -> None:
        """Write every row, giving values still on a device a little time."""
        until_s = time.monotonic() + patience_s
        self.publish(everything=True)
        while self._finished and time.monotonic() < until_s:
            time.sleep(0.01)
            self.publish(everything=True)
        with self._lock:
            for row in self._finished:
                self._write(row)
            self._finished.clear()

    def _is_complete(self, row: StepRow, now_ns: int, everything: bool) -> bool:
        assert row.end_ns is not None
        late_ns = 0 if everything else round(row.late_s * 1e9)
        is_over = row.end_ns + late_ns <= now_ns
        return is_over and all(value.is_ready() for value in row.values.values())

    def _write(self, row: StepRow) -> None:
        assert row.end_ns is not None
        values = {name: v.number() for name, v in row.values.items() if v.is_ready()}
        if "tokens" not in row.values and row.batch_tokens:
            values["tokens"] = float(row.batch_tokens)
        self._recorder.add_row(
            "steps",
            step=row.number,
            start_ns=row.start_ns,
            dur_ns=row.end_ns - row.start_ns,
            **{name: value for name, value in values.items() if value is not None},
        )


def _checked(number: int) -> int:
    if abs(number := int(number)) > LARGEST:
        raise ValueError(
            f"a step's number is at most {LARGEST}, not one of {number.bit_length()} bits"
        )
    return number

"""Steps as training frameworks log them: a line or a point of loss, learning rate and speed.

Logs have a line for every so many steps. Of one that has no length, the length is the time since
the line before, divided by the steps in between; where there are no times either it is 0, which
means "not recorded". A step number that is less than the one before it shows a restart: of
steps that were trained again, the newest numbers count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ingest.readers.base import Sink
from ingest.readers.tables.logged_step import LoggedStep
from ingest.readers.tables.rows import rows
from ingest.readers.tables.whole_seconds import place_within_seconds

MOST_STEPS = 2_000_000
"""Of one file and rank; each takes some 250 bytes."""
_COLUMNS = ("start_ns", "dur_ns", "loss", "grad_norm", "lr", "tokens", "flops")


@dataclass(slots=True)
class Restart:
    """After `last` the steps go on at `first`; `at_ns`: Unix ns, None unknown."""

    last: int
    first: int
    at_ns: int | None


@dataclass
class TrainingSteps:
    """The steps of one rank, in the order of its file."""

    steps: dict[int, LoggedStep] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    most_between: int = 1
    """steps between two lines that follow on each other"""
    _newest: LoggedStep | None = None

    def add(self, logged: LoggedStep) -> None:
        """One line; raises ValueError above MOST_STEPS."""
        newest = self._newest
        if newest is not None and logged.step == newest.step:
            self._newest = self.steps[logged.step] = newest.filled(logged)
            return
        if newest is not None and logged.step < newest.step:
            self.restarts.append(Restart(newest.step, logged.step, logged.end_ns))
        elif newest is not None:
            self.most_between = max(self.most_between, logged.step - newest.step)
            if logged.end_ns is not None and newest.end_ns is not None:
                since_ns = (logged.end_ns - newest.end_ns) // (logged.step - newest.step)
                logged.since_ns = since_ns if since_ns > 0 else None
        if len(self.steps) >= MOST_STEPS:
            raise ValueError(f"has more than {MOST_STEPS:,} steps, of which the first were read")
        self._newest = self.steps[logged.step] = logged

    @property
    def have_times(self) -> bool:
        """Whether it is known when every step was logged."""
        return all(step.end_ns is not None for step in self.steps.values())

    @property
    def have_lengths(self) -> bool:
        """Whether the length of any step is known."""
        return any(step.length_ns is not None for step in self.steps.values())

    @property
    def first_ns(self) -> int:
        """When the first step was logged, in Unix ns; 0 unknown."""
        known = [step.end_ns for step in self.steps.values() if step.end_ns is not None]
        return min(known, default=0)

    def shift(self, by_ns: int) -> None:
        """Move all times."""
        for step in self.steps.values():
            step.end_ns = None if step.end_ns is None else step.end_ns + by_ns

    def continued(self, later: TrainingSteps) -> TrainingSteps:
        """These steps, and those of a later file of the same rank."""
        both = TrainingSteps({**self.steps, **later.steps}, [*self.restarts])
        first = next(iter(later.steps.values()), None)
        if self._newest is not None and first is not None and first.step <= self._newest.step:
            both.restarts.append(Restart(self._newest.step, first.step, first.end_ns))
        both.restarts += later.restarts
        both.most_between = max(self.most_between, later.most_between)
        both._newest = later._newest or self._newest
        return both

    def refine_times(self) -> None:
        """Where times are whole seconds, set them by the lengths that lines state."""
        place_within_seconds(self.steps.values())

    def write(self, sink: Sink, rank: int, world_size: int, relative: bool) -> tuple[int, int]:
        """Rows of `steps`, and a mark for each restart; returns when they begin and end.

        `world_size`: -1 unknown, and with it the FLOPs of the whole step. `relative`: every step
        begins at 0, because not all have a time.
        """
        placed = [_row(step, world_size) for step in self._in_order()]
        for row in placed:
            row["start_ns"] = 0 if relative else row["end_ns"] - row["dur_ns"]
        columns: dict[str, Any] = {"rank": rank, "step": [row["step"] for row in placed]}
        columns |= {name: [row[name] for row in placed] for name in _COLUMNS}
        sink.add_rows("steps", rank, rows("steps", len(placed), columns))
        for restart in self.restarts:
            self._mark(sink, rank, restart)
        begins = [row["start_ns"] for row in placed]
        ends = [row["start_ns"] + row["dur_ns"] for row in placed]
        return min(begins, default=0), max(ends, default=0)

    def _in_order(self) -> list[LoggedStep]:
        return [self.steps[number] for number in sorted(self.steps)]

    def _mark(self, sink: Sink, rank: int, restart: Restart) -> None:
        text = f"restarted: the log goes on at step {restart.first:,} after step {restart.last:,}"
        if restart.at_ns is not None:
            columns = {"rank": rank, "step": restart.first, "ts_ns": restart.at_ns}
            mark = rows("marks", 1, {**columns, "kind": ["restart"], "text": [text]})
            sink.add_rows("marks", rank, mark)

    def guesses(self) -> list[str]:
        """What a reader of the run must know of these steps, in sentences."""
        found = []
        if self.most_between > 1:
            found.append(
                f"not every step is in the log (up to {self.most_between:,} lie between two "
                "lines): the numbers of a step stand for those since the line before"
            )
        measured = sum(
            step.dur_ns is None and step.since_ns is not None for step in self.steps.values()
        )
        if measured:
            found.append(
                f"the length of {measured:,} steps is the time since the line before "
                "divided by the steps in between, with everything else that happened there"
            )
        if self.restarts:
            first = self.restarts[0]
            found.append(
                f"the steps begin again {len(self.restarts):,} times (first at step "
                f"{first.first:,} after step {first.last:,}): of steps that were trained again the "
                "newest numbers are shown"
            )
        return found


def _row(step: LoggedStep, world_size: int) -> dict[str, Any]:
    seconds = None if step.length_ns is None else step.length_ns / 1e9
    tokens, flops = step.tokens, None
    if seconds is not None and tokens is None and step.tokens_per_s is not None:
        tokens = step.tokens_per_s * seconds
    if seconds is not None and step.flops_per_s is not None and world_size > 0:
        flops = step.flops_per_s * seconds * world_size
    return {
        "step": step.step,
        "end_ns": step.end_ns or 0,
        "dur_ns": step.length_ns or 0,
        "loss": step.loss,
        "grad_norm": step.grad_norm,
        "lr": step.lr,
        "tokens": tokens,
        "flops": flops,
    }

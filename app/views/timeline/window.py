"""What attempt and part of its time a timeline shows, and how far there is something to show.

Times are ns since the run's t0 on the aligned clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from app.view_state import View
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import UNKNOWN

_ROOM = 20
"""What is open at the end is drawn a 20th of the record beyond it, or the newest would have no
length."""


@dataclass(frozen=True)
class Window:
    """What part of time is wanted, ns since t0; `step` only where times are relative to steps."""

    begin_ns: int
    end_ns: int
    step: int | None = None

    @property
    def length_ns(self) -> int:
        """Length, at least 1."""
        return max(self.end_ns - self.begin_ns, 1)


@dataclass(frozen=True)
class Extent:
    """From when to when there is something, ns since t0, and the newest steps all have finished."""

    begin_ns: int
    end_ns: int
    first_step: int
    last_step: int
    finished_step: int | None
    before_step: int | None
    only_collectives: Mapping[int, int] = field(default_factory=dict)
    """ranks without steps and spans, and how many collectives each has (collective_lines.py)"""


def is_relative(run: Run) -> bool:
    """Whether times count from each step's begin, so that steps cannot be compared by time."""
    return run.info["clock"] == "per_step_relative"


def extent(run: Run, attempt: int, ranks: list[int], stop: Stop | None = None) -> Extent | None:
    """Extent of the data of these ranks, None without any."""
    rows = run.ask("step_extent", ranks=_text(ranks), attempt=attempt, stop=stop).to_pylist()
    has_all = bool(rows) and rows[0]["num_ranks"] == len(ranks)
    others = {} if has_all else _only_collectives(run, attempt, ranks, stop)
    steps = [_extent_of_steps(row, run.info["created_ns"]) for row in rows]
    if not others or is_relative(run):
        return steps[0] if steps else None
    begin_ns, end_ns = _extent_of_collectives(run, attempt, list(others), stop)
    known = steps[0] if steps else Extent(begin_ns, end_ns, UNKNOWN, UNKNOWN, None, None)
    return replace(
        known,
        begin_ns=min(known.begin_ns, begin_ns),
        end_ns=max(known.end_ns, end_ns),
        only_collectives=others,
    )


def _only_collectives(
    run: Run, attempt: int, ranks: list[int], stop: Stop | None
) -> dict[int, int]:
    """Ranks without a step or span and how many collectives each has; empty where none has any."""
    rows = run.ask("ranks_without_steps", ranks=_text(ranks), attempt=attempt, stop=stop)
    return {row["rank"]: row["num_collectives"] for row in rows.to_pylist()}


def _extent_of_collectives(
    run: Run, attempt: int, ranks: list[int], stop: Stop | None
) -> tuple[int, int]:
    """From when to when such ranks have collectives."""
    rows = run.ask(
        "collective_extent",
        ranks=_text(ranks),
        rank_min=min(ranks),
        rank_max=max(ranks),
        attempt=attempt,
        stop=stop,
    )
    row, t0_ns = rows.to_pylist()[0], run.info["created_ns"]
    room_ns = (row["end_ns"] - row["begin_ns"]) // _ROOM + 1 if row["num_open"] else 0
    return row["begin_ns"] - t0_ns, row["end_ns"] + room_ns - t0_ns


def _extent_of_steps(row: dict[str, Any], t0_ns: int) -> Extent:
    return Extent(
        row["begin_ns"] - t0_ns,
        row["end_ns"] - t0_ns,
        row["first_step"],
        row["last_step"],
        row["finished_step"],
        row["before_step"],
    )


def attempt_for(run: Run, view: View) -> int:
    """The attempt of the view, else the newest that has the last of its steps, else the newest."""
    if view.attempt is not None:
        return view.attempt
    return run.newest_attempt if view.steps is None else run.attempt_with(view.steps[1])


def window_for(
    run: Run, attempt: int, ranks: list[int], view: View, have: Extent, stop: Stop | None = None
) -> Window:
    """The window of time of the view, else that of its steps, else the newest steps.

    Raises UserError where the window is empty or these ranks have no such step.
    """
    if view.t is not None:
        if view.t[1] <= view.t[0]:
            raise UserError("the window of time ends before it begins")
        newest = have.last_step if have.finished_step is None else have.finished_step
        step = (view.steps[1] if view.steps else newest) if is_relative(run) else None
        return Window(*view.t, step)
    if view.steps is not None:
        return window_of_steps(run, attempt, ranks, view.steps, stop)
    return default_window(run, attempt, ranks, have, stop)


def window_of_steps(
    run: Run, attempt: int, ranks: list[int], steps: tuple[int, int], stop: Stop | None = None
) -> Window:
    """Window of some steps of these ranks; raises UserError where they have none of them."""
    first, last = steps

    def windows(step_min: int, step_max: int) -> pa.Table:
        return run.ask(
            "step_windows",
            ranks=_text(ranks),
            attempt=attempt,
            step_min=step_min,
            step_max=step_max,
            stop=stop,
        )

    if is_relative(run):  # one step is shown: of sampled ones the last that is there
        first = last = max(windows(first, last).column("step").to_pylist(), default=last)
    borders = [windows(step, step) for step in {first, last}]  # those between say nothing more
    rows = pa.concat_tables(borders if all(b.num_rows for b in borders) else [windows(first, last)])
    if not rows.num_rows:
        raise UserError(f"these ranks have no step {first} to {last} in attempt {attempt}")
    t0_ns = run.info["created_ns"]
    begin_ns = int(rows.column("begin_ns").to_numpy().min()) - t0_ns
    end_ns = int(rows.column("end_ns").to_numpy().max()) - t0_ns
    return Window(begin_ns, end_ns, last if is_relative(run) else None)


def default_window(
    run: Run, attempt: int, ranks: list[int], have: Extent, stop: Stop | None = None
) -> Window:
    """The last two steps that all of these ranks have finished, and what came after them."""
    if have.finished_step is None:
        if is_relative(run):
            return window_of_steps(run, attempt, ranks, (have.last_step, have.last_step), stop)
        return Window(have.begin_ns, have.end_ns)
    first = have.finished_step if have.before_step is None else have.before_step
    found = window_of_steps(run, attempt, ranks, (first, have.finished_step), stop)
    if is_relative(run):
        return found
    return Window(found.begin_ns, max(found.end_ns, have.end_ns))


def _text(ranks: list[int]) -> str:
    return ",".join(map(str, ranks))

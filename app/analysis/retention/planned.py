"""Decides what retention takes out of the runs of a folder; changes nothing.

Of all runs together, what was recorded before one moment (the horizon) is beyond the bounds. Of a
run that lies before it altogether the folder goes, of any other the steps that ended before it:
but for those that findings and pinned links point at, and for what may still be written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.analysis.retention.pointed_at import kept_by_findings, kept_by_pins
from ingest.errors import UserError
from ingest.index.deletion import foreign_name, written_ns
from ingest.index.retention import Keep
from ingest.index.snapshots import index_folder
from ingest.run import Run
from ingest.run_folder.pins import Pin, read_pins
from ingest.run_folder.retention_file import Kept, read_retention
from ingest.run_folder.step_ranges import StepRange

BUSY = "another process indexes it"
LIVE_S = 3600.0
"""What a run recorded that has not ended stays for an hour at least: a job may hang, and go on."""
CLOCK_S = 86_400.0
"""Rows arrive within minutes. Of a job still running, those that seem older or newer by more than a
day have the times of a wrong clock."""
EVER_SET_NS = 946_684_800 * 10**9
"""The year 2000: a clock that says an earlier time was never set since its machine was started."""
_FILES = (
    "SELECT attempt, step_min, step_max, num_bytes,"
    " coalesce(ts_max, (SELECT max(ts_max) FROM files), 0) AS ts_max,"
    " coalesce(ts_min, (SELECT min(ts_min) FROM files), 0) AS ts_min"
    " FROM files WHERE problem IS NULL"
)
_STEPS = (
    "SELECT attempt, step, max(end_ns) AS end_ns FROM step_rollup WHERE step >= 0"
    " GROUP BY attempt, step ORDER BY attempt, step"
)
_NEWEST = (
    "SELECT max(arrived_ns) AS arrived_ns,"
    " (SELECT max(ts_max) FROM files f WHERE f.attempt = a.attempt AND problem IS NULL)"
    " AS recorded_ns FROM arrivals a GROUP BY a.attempt ORDER BY a.attempt DESC LIMIT 1"
)


@dataclass(frozen=True)
class Aged:
    """A run and how old its data is. `files`: when the newest row of each was recorded, and bytes;
    `oldest_ns`: when the oldest row was.

    Times of an import say when it happened, not when it came here: it is as old as its newest file.
    """

    folder: Path
    is_dated: bool
    files: tuple[tuple[int, int], ...]
    oldest_ns: int

    @property
    def num_bytes(self) -> int:
        """Of its data files."""
        return sum(num_bytes for _, num_bytes in self.files)

    @property
    def newest_ns(self) -> int:
        """When its newest row was recorded."""
        return max((ts_ns for ts_ns, _ in self.files), default=_written_ns(self.folder))


@dataclass(frozen=True)
class Plan:
    """What goes of one run. `num_bytes`: about so much; `left_alone`: why nothing can go, or empty.

    `found`, `pinned`: old steps that stay, as findings or pinned links point at them. `before_ns`:
    what was recorded before goes; `pins`: those looked at.
    """

    aged: Aged
    is_whole: bool = False
    removed: tuple[StepRange, ...] = ()
    num_bytes: int = 0
    found: tuple[Kept, ...] = ()
    pinned: tuple[Kept, ...] = ()
    left_alone: str = ""
    before_ns: float = -math.inf
    pins: tuple[Pin, ...] = ()

    @property
    def folder(self) -> Path:
        """The run's."""
        return self.aged.folder


def aged(folder: Path) -> Aged:
    """How old the data of a run is; raises UserError."""
    with Run(folder) as run:
        run.refresh()  # where another process does so, `planned` leaves a whole run alone
        is_dated = run.info["source"] == "hooks" and run.info["clock"] == "absolute"
        here_ns = 0 if is_dated else _written_ns(folder)
        rows = run.index_rows(_FILES)
    files = tuple((row["ts_max"] if is_dated else here_ns, row["num_bytes"]) for row in rows)
    oldest_ns = min((row["ts_min"] for row in rows), default=0) if is_dated else here_ns
    return Aged(folder, is_dated, files, oldest_ns)


def horizon_ns(keep: Keep, runs: Sequence[Aged], now_ns: int | None = None) -> float:
    """What was recorded before this moment is beyond the bounds of all runs together."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    return keep.horizon_ns((file for run in runs for file in run.files), now_ns)


def planned(run_aged: Aged, before_ns: float, with_findings: bool = False) -> Plan:
    """What goes of a run that was recorded before that moment; raises UserError.

    `with_findings`: also what findings point at.
    """
    folder = run_aged.folder
    if min(run_aged.newest_ns, run_aged.oldest_ns) >= before_ns:
        return Plan(run_aged)
    if folder.is_symlink():
        return Plan(run_aged, left_alone="it is a link to another folder; give that one")
    if index_folder(folder).parent != folder:
        return Plan(run_aged, left_alone="its folder cannot be written")
    with Run(folder) as run:
        is_current, state = run.refresh(), run.state
        if state != "finished":
            before_ns = min(before_ns, time.time_ns() - LIVE_S * 1e9)
        newest_ns = max(run_aged.newest_ns, _written_ns(folder))  # a job may go on in the folder
        is_whole_old = state in ("finished", "lost") and newest_ns < before_ns
        seems_whole_old = run_aged.newest_ns < before_ns
        why = _left_alone(run, run_aged.is_dated, is_whole_old, seems_whole_old and not is_current)
        if why:
            return Plan(run_aged, left_alone=why)
        rows = run.index_rows(_STEPS)
        if not run_aged.is_dated:
            rows = [row | {"end_ns": run_aged.newest_ns} for row in rows]
        old = [row for row in rows if row["end_ns"] < before_ns]
        if not old and not is_whole_old:
            return Plan(run_aged)
        newest = dict.fromkeys(run.attempts, 0) if not old else {}
        newest |= {row["attempt"]: row["step"] for row in old}  # they ascend
        plan = Plan(run_aged, before_ns=before_ns, pins=tuple(read_pins(folder)))
        pinned = kept_by_pins(run, plan.pins)
        found = [] if with_findings else _found(run, newest)
        if is_whole_old and not pinned and not found:
            foreign = foreign_name(folder)
            if foreign:
                why = f"it has {foreign}, which is not of a run; move that to another place"
                return Plan(run_aged, left_alone=why)
            return replace(plan, is_whole=True, num_bytes=run_aged.num_bytes)
        removed = tuple(_ranges(rows, before_ns, [one.steps for one in (*pinned, *found)]))
        return replace(
            plan,
            removed=removed,
            num_bytes=_num_bytes(run, removed),
            found=_of(found, old),
            pinned=_of(pinned, old),
        )


def _left_alone(run: Run, is_dated: bool, is_whole_old: bool, is_busy: bool) -> str:
    """Why nothing of a run can go that has something old, or empty. `is_busy`: newer rows may be on
    their way into the index.
    """
    state = run.state
    if state == "importing":
        return "files are still read into it"
    if is_busy:
        return BUSY
    if is_whole_old or not is_dated:
        return ""
    for newest in run.index_rows(_NEWEST):
        recorded_ns = newest["recorded_ns"] or 0
        if 0 < recorded_ns < EVER_SET_NS:
            return (
                "its newest rows seem to be from before the year 2000, so nobody knows their age; "
                "check the clocks of its hosts"
            )
        if state != "finished" and abs(newest["arrived_ns"] - recorded_ns) > CLOCK_S * 1e9:
            return (
                "it has not ended, and the times in its newest rows are more than a day off from "
                "when they arrived here; check the clocks of its hosts"
            )
    return ""


def _found(run: Run, newest: Mapping[int, int]) -> list[Kept]:
    """Steps that findings point at, or pointed at when others were removed."""
    before = read_retention(run.folder).kept
    new = kept_by_findings(run, newest)  # which may call the same by another name now
    known = [one.steps for one in before]
    return sorted(
        [*before, *(one for one in new if not any(steps.covers(one.steps) for steps in known))]
    )


def _ranges(
    rows: Sequence[dict[str, Any]], before_ns: float, kept: Sequence[StepRange]
) -> Iterator[StepRange]:
    """Neighbouring steps that ended before that moment and are not kept."""
    begun: StepRange | None = None
    for row in rows:
        step = StepRange(row["attempt"], row["step"], row["step"])
        goes = row["end_ns"] < before_ns and not any(one.overlaps(step) for one in kept)
        if begun is not None and (not goes or begun.attempt != step.attempt):
            yield begun
            begun = None
        if goes:
            begun = step if begun is None else StepRange(step.attempt, begun.first, step.last)
    if begun is not None:
        yield begun


def _of(kept: Sequence[Kept], rows: Sequence[dict[str, Any]]) -> tuple[Kept, ...]:
    """Those of which one of the rows is a step."""
    steps = [StepRange(row["attempt"], row["step"], row["step"]) for row in rows]
    return tuple(one for one in kept if any(one.steps.covers(step) for step in steps))


def _num_bytes(run: Run, removed: Sequence[StepRange]) -> int:
    """About how much of a run's files these steps take: the rows of a file are spread evenly."""
    total = 0.0
    for row in run.index_rows(_FILES) if removed else ():
        num_steps = row["step_max"] - row["step_min"] + 1
        inside = sum(
            max(min(row["step_max"], one.last) - max(row["step_min"], one.first) + 1, 0)
            for one in removed
            if one.attempt == row["attempt"]
        )
        total += row["num_bytes"] * inside / num_steps
    return round(total)


def _written_ns(folder: Path) -> int:
    try:
        return written_ns(folder)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be read: {error.strerror}; has it been deleted?"
        ) from error

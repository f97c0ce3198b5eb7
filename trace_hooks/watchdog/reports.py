"""What the watchdog writes into a run folder about a rank: stacks, ring, mark, its own state.

stacks/ATTEMPT-RANK-NUMBER.txt, rings/ATTEMPT-RANK.ring   of the rank
segments/TABLE-ATTEMPT-RANK-NUMBER.parquet                marks, looks, entered; from FIRST_NUMBER
watchdog-HOST.json                                        newest report of each rank of a host
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_hooks.job.process_info import host_name
from trace_hooks.recording.flight_ring import RingHeader

if TYPE_CHECKING:
    from trace_hooks.job.spool import Spool

FIRST_NUMBER = 50_000_000
"""Segments of a rank's marks that the watchdog writes are numbered from here: the rank itself,
at one a second, would reach this number after a year and a half."""


MOST_STACKS = 100
"""Files of one rank's stacks; the last one is written again, so that a rank that falls silent again
and again fills no disk."""

_newest_numbers: dict[tuple[Path, str, int, int], int] = {}
"""Numbers of the newest segments: the server merges old ones, whose numbers are not free then."""


@dataclass(frozen=True)
class Report:
    """What became of a rank. `state`: running (again), stalled, silent, lost or request."""

    header: RingHeader
    state: str
    text: str
    since_ns: int  # Unix ns
    time_ns: int  # monotonic
    stacks: str
    ring: bytes

    def of_attempt(self, attempt: int) -> Report:
        """The same report under another attempt: the rank died before it knew its own."""
        return replace(self, header=replace(self.header, attempt=attempt))


def write_report(folder: Path, report: Report) -> None:
    """Write a report into a run folder; raises OSError."""
    attempt_and_rank = f"{report.header.attempt:04d}-{report.header.rank:05d}"
    files: dict[str, Any] = {}
    if report.stacks:
        number = len(list((folder / "stacks").glob(f"{attempt_and_rank}-*.txt")))
        number = min(number, MOST_STACKS - 1)
        files["stacks"] = f"stacks/{attempt_and_rank}-{number}.txt"
        _publish(folder / files["stacks"], report.stacks.encode())
    if report.ring:
        files["ring"] = f"rings/{attempt_and_rank}.ring"
        _publish(folder / files["ring"], report.ring)
    _write_state(folder, attempt_and_rank, report, files)
    if report.state in ("stalled", "silent", "lost"):
        _write_mark(folder, report, files)


def _publish(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_state(
    folder: Path, attempt_and_rank: str, report: Report, files: dict[str, Any]
) -> None:
    path = folder / f"watchdog-{host_name()}.json"
    state: dict[str, Any] = {"host": host_name(), "ranks": {}}
    with suppress(OSError, ValueError):
        state = json.loads(path.read_text(encoding="utf-8"))
    header = report.header
    state["pid"] = os.getpid()
    state["ranks"][attempt_and_rank] = {
        "attempt": header.attempt,
        "rank": header.rank,
        "pid": header.pid,
        "state": report.state,
        "text": report.text,
        "since_ns": report.since_ns,
        "step": header.step,
        "phase": header.phase,
        "last_op": header.last_op,
        **files,
    }
    _publish(path, (json.dumps(state, indent=1) + "\n").encode())


def _write_mark(folder: Path, report: Report, files: dict[str, Any]) -> None:
    header = report.header
    row = {
        "ts_ns": report.time_ns,
        "step": header.step,
        "kind": report.state,
        "text": f"rank {header.rank}: {report.text}",
        "args": json.dumps(files) if files else None,
    }
    write_rows(folder, header, {"marks": [row]})


def write_rows(
    folder: Path,
    header: RingHeader,
    by_table: Mapping[str, Sequence[Mapping[str, Any]]],
    spool: Spool | None = None,
) -> None:
    """Write rows of a rank, times on the host's monotonic clock, as segments or into a spool;
    raises OSError.
    """
    # here, not above: a watchdog with nothing to report stays small
    from trace_hooks.job.spool import Batch, Destination
    from trace_hooks.recording.arrow_columns import placed, row_table
    from trace_hooks.recording.clock import Anchor
    from trace_hooks.schema import free_segment, publish_table

    anchor = Anchor(offset_ns=header.clock_offset_ns)
    for table, rows in by_table.items():
        if not rows:
            continue
        placed_rows = placed(table, [row_table(table, rows, anchor)], header.attempt, header.rank)
        if spool is not None:
            where = Destination(folder, header.attempt, header.rank)
            spool.put_of_watchdog(Batch(where, {table: placed_rows}))
            continue
        key = (folder, table, header.attempt, header.rank)
        newest = _newest_numbers.get(key, FIRST_NUMBER - 1)
        path, number = free_segment(folder, table, header.attempt, header.rank, newest)
        _newest_numbers[key] = number
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_table(placed_rows, path)

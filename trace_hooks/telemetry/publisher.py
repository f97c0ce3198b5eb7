"""Writes samples and kernel lines as segments of the run folder.

Rows of the host have rank -1 and lie in files named after one of its ranks, as other hosts write
into the same folder; rows of a rank's process lie in files of that rank. Their numbers begin far
above those of the rank itself and of its watchdog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_hooks.job.process_info import host_name
from trace_hooks.telemetry.sample_rows import MOST_ROWS, Row, table_of

if TYPE_CHECKING:
    from trace_hooks.job.spool import Spool

HOST_FIRST_NUMBER = 60_000_000
PROCESS_FIRST_NUMBER = 70_000_000

HOST_EVERY_S = 10.0
PROCESS_EVERY_S = 120.0
"""A file of each rank is worth writing only so often; at first each wait is twice the one before,
from HOST_EVERY_S on, for those who watch how a job starts.
"""

MOST_LINES = 1_000
"""Of the kernel's log, kept while the run's folder cannot be written."""


@dataclass(frozen=True)
class Target:
    """Where rows go: the run's folder, and the rank that names the host's files."""

    folder: Path
    attempt: int
    rank: int
    clock_offset_ns: int


class Publisher:
    """Takes rows and writes them in time (one thread): as files, or into a spool. Keeps what could
    not be written for the next time, the newest of it.
    """

    def __init__(self, spool: Spool | None = None) -> None:
        self._spool = spool
        self._numbers: dict[tuple[str, int, int, int], int] = {}
        self._of_host: list[Row] = []
        self._of_ranks: dict[int, list[Row]] = defaultdict(list)
        self._lines: list[Mapping[str, Any]] = []
        self._due_ranks_s = 0.0
        self._wait_s = HOST_EVERY_S

    def write(
        self,
        target: Target,
        rows: Sequence[Row],
        lines: Sequence[Mapping[str, Any]],
        now_s: float,
        is_last: bool = False,
    ) -> None:
        """Write rows of the host now, those of ranks in time; raises OSError."""
        self._take(rows, lines)
        offset_ns = target.clock_offset_ns
        if self._of_host:
            table = table_of(self._of_host, host_name(), target.attempt, -1, offset_ns)
            self._publish("host_metrics", target, target.rank, HOST_FIRST_NUMBER, table)
            self._of_host = []
        if self._lines:
            self._write_lines(target, self._lines)
            self._lines = []
        if self._of_ranks and (is_last or now_s >= self._due_ranks_s):
            self._due_ranks_s = now_s + self._wait_s
            self._wait_s = min(2 * self._wait_s, PROCESS_EVERY_S)
            for rank, of_rank in sorted(self._of_ranks.items()):
                table = table_of(of_rank, host_name(), target.attempt, rank, offset_ns)
                self._publish("host_metrics", target, rank, PROCESS_FIRST_NUMBER, table)
                del self._of_ranks[rank]

    def _take(self, rows: Sequence[Row], lines: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            (self._of_host if row[2].rank < 0 else self._of_ranks[row[2].rank]).append(row)
        self._lines += lines
        del self._of_host[:-MOST_ROWS], self._lines[:-MOST_LINES]
        for of_rank in self._of_ranks.values():
            del of_rank[: -MOST_ROWS // len(self._of_ranks)]

    def _write_lines(self, target: Target, lines: Sequence[Mapping[str, Any]]) -> None:
        # here, not above: most hosts have none, and it imports what costs memory
        from trace_hooks.recording.arrow_columns import placed, row_table
        from trace_hooks.recording.clock import Anchor

        whole = [{"step": -1, **line, "host": host_name()} for line in lines]
        anchor = Anchor(offset_ns=target.clock_offset_ns)
        table = placed("log_lines", [row_table("log_lines", whole, anchor)], target.attempt, -1)
        self._publish("log_lines", target, target.rank, HOST_FIRST_NUMBER, table)

    def _publish(self, name: str, target: Target, rank: int, first: int, table: Any) -> None:
        from trace_hooks.job.spool import Batch, Destination
        from trace_hooks.schema import free_segment, publish_table

        if self._spool is not None:
            where = Destination(target.folder, target.attempt, rank)
            self._spool.put_of_watchdog(Batch(where, {name: table}))
            return
        key = (name, target.attempt, rank, first)
        newest = self._numbers.get(key, first - 1)
        path, number = free_segment(target.folder, name, target.attempt, rank, newest)
        self._numbers[key] = number
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_table(table, path)

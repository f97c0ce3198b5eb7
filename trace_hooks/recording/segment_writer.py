"""Publishes tables as segments of one rank, and survives a folder that cannot be written.

Rows that cannot be written are dropped and counted, and the next ones are tried after a pause: a
full or missing disk must not stop training.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from trace_hooks.recording.arrow_columns import placed
from trace_hooks.schema import SegmentName, publish_table

log = logging.getLogger("trace_hooks")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0


def waiting_bytes(folder: Path, rank: int) -> int:
    """Bytes of the segments of a rank in a folder."""
    total = 0
    for path in folder.glob(f"*-{rank:05d}-*.parquet"):
        with suppress(OSError):  # sent in the meantime
            total += path.stat().st_size
    return total


class Writer(Protocol):
    """Where rows go; no method raises for I/O."""

    @property
    def dropped(self) -> int:
        """Rows that could not be written."""

    @property
    def num_files(self) -> int:
        """Files that this rank has published."""

    @property
    def num_host_files(self) -> int | None:
        """Files that the collector of its host has published; None where there is none."""

    def write(self, name: str, tables: Sequence[pa.Table]) -> bool:
        """Publish rows of a table as a file of this rank."""

    def write_all(self, tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """Write rows of some tables."""

    def finish(self) -> None:
        """Have everything published: the rank ends."""


class SegmentWriter:
    """Writes the segments of one (attempt, rank) below `folder`/segments; never raises for I/O."""

    def __init__(
        self,
        folder: Path,
        attempt: int,
        rank: int,
        seconds: Callable[[], float] = time.monotonic,
        most_bytes: int | None = None,
    ) -> None:
        """`most_bytes`: of segments in the folder that wait to be sent; None where they stay."""
        self.folder = folder / "segments"
        self.dropped = 0  # rows
        self._attempt, self._rank = attempt, rank
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._numbers: dict[str, int] = {}
        self._pause_s = FIRST_PAUSE_S
        self._closed_until_s = 0.0

    @property
    def pausing(self) -> bool:
        """Whether the last write failed so recently that the next ones are dropped untried."""
        return self._seconds() < self._closed_until_s

    @property
    def num_files(self) -> int:
        """Segments published so far."""
        return sum(self._numbers.values())

    @property
    def num_host_files(self) -> int | None:
        """No collector publishes for this rank."""
        return None

    def write_all(self, tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """Publish rows of some tables, each as its next segment."""
        for name, members in tables.items():
            self.write(name, members)

    def finish(self) -> None:
        """Everything is published."""

    def write(self, name: str, tables: Sequence[pa.Table]) -> bool:
        """Publish rows as the next segment of their table; False where they had to be dropped."""
        num_rows = sum(table.num_rows for table in tables)
        if self.pausing or self._is_full():
            self.dropped += num_rows
            return False
        number = self._numbers.get(name, 0)
        path = self.folder / str(SegmentName(name, self._attempt, self._rank, number))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            publish_table(placed(name, tables, self._attempt, self._rank), path)
        except (OSError, pa.ArrowException) as error:
            self._failed(num_rows, error)
            return False
        self._numbers[name] = number + 1
        self._pause_s = FIRST_PAUSE_S
        return True

    def _is_full(self) -> bool:
        if self._most_bytes is None:
            return False
        return waiting_bytes(self.folder, self._rank) > self._most_bytes

    def _failed(self, num_rows: int, error: Exception) -> None:
        if self._pause_s == FIRST_PAUSE_S:
            log.warning(
                "trace_hooks: cannot write to %s (%s); rows are dropped until it works again, "
                "training goes on",
                self.folder,
                error,
            )
        self.dropped += num_rows
        self._closed_until_s = self._seconds() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

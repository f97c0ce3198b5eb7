"""Hands a rank's rows to the collector of its host, and writes files where there is none.

A hand-over is a file in node-local memory (spool.py): it does not wait for the disk of the run, and
what was handed over is published also when the rank is killed. When the collector dies, the rank
publishes what it has not, and is its own writer from then on.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from trace_hooks.job.spool import (
    BATCH,
    MINE,
    TAKEN,
    Batch,
    Destination,
    Spool,
    is_of_watchdog,
    publish_claimed,
)
from trace_hooks.recording.arrow_columns import placed
from trace_hooks.recording.segment_writer import SegmentWriter

log = logging.getLogger("trace_hooks")

PUBLISH_EVERY_S = 10.0
"""The collector publishes this often where nobody looks at the run; noted in the rank's file, as a
rank is not silent while its rows wait."""

CHECK_S = 0.5
"""How often to look whether the collector lives."""

MOST_WAITING_BYTES = 32 << 20
"""Bytes of a rank that wait for the collector; beyond it the rank writes files."""

LEAST_FREE_BYTES = 256 << 20
"""Of node-local memory, which data loaders and NCCL need: where less is free, ranks write files."""

START_S = 10.0
"""Rows of the beginning wait this long for a collector that starts together with its ranks."""

STUCK_S = 30.0
"""A collector that has not taken a batch for this long hangs: the rank takes it back."""

ORPHAN_S = 5.0
"""Without a collector, batches that lie for this long belong to nobody who lives: any rank
publishes them."""

FINISH_S, POLL_S = 3.0, 0.02
"""The end of training waits this long for the collector to publish what was handed over."""

PUBLISH_NOW = "publish.now"
"""File in the spool that makes the collector publish at once."""


class HandoverWriter:
    """Writes the rows of one rank: to the collector, else as `own` files (drain thread)."""

    def __init__(self, own: SegmentWriter, spool: Spool, destination: Destination) -> None:
        self._own = own
        self._spool = spool
        self._where = destination
        self._waiting: deque[tuple[Path, int, float]] = deque()  # path, bytes, when (monotonic)
        self._num_published = 0  # segments of batches that no collector took
        self._awaited_until_s = time.monotonic() + START_S  # the collector, monotonic

    @property
    def dropped(self) -> int:
        """Rows that could not be written."""
        return self._own.dropped

    @property
    def num_files(self) -> int:
        """Files that this rank has published."""
        return self._own.num_files + self._num_published

    @property
    def num_host_files(self) -> int | None:
        """Files that the collector of this host has published."""
        return self._spool.num_published

    def write(self, name: str, tables: Sequence[pa.Table]) -> bool:
        """Publish rows of a table as a file of this rank."""
        return self._own.write(name, tables)

    def write_all(self, tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """Hand rows over, or publish them."""
        if tables and not self._is_handed_over(tables):
            self._own.write_all(tables)

    def check(self) -> None:
        """Publish what the collector has not, where it is dead or hangs."""
        try:
            if not self._is_collected():
                self._take_over()
            elif self._oldest_s() > STUCK_S:
                self._take_back(BATCH, MINE)
        except (OSError, ValueError) as error:  # the disk of the run; tried again
            log.debug("trace_hooks: cannot publish what was handed over: %s", error)

    def finish(self) -> None:
        """Have everything published, within about FINISH_S."""
        if not self._spool.folder.exists():  # nothing waited when the watchdog ended, by a SIGTERM
            return
        try:
            self._wait_for_collector()
            self._take_over()
            self._take_back(BATCH, MINE)
        except (OSError, ValueError) as error:
            log.warning("trace_hooks: the last rows wait in %s: %s", self._spool.folder, error)

    def _wait_for_collector(self) -> None:
        (self._spool.folder / PUBLISH_NOW).touch(mode=0o600)
        until_s = time.monotonic() + FINISH_S
        while self._spool.own(BATCH, TAKEN) and self._spool.has_collector():
            if time.monotonic() > until_s:
                return
            time.sleep(POLL_S)

    def _is_handed_over(self, tables: Mapping[str, Sequence[pa.Table]]) -> bool:
        where = self._where
        try:
            if not self._may_hand_over():
                return False
            whole = {n: placed(n, rows, where.attempt, where.rank) for n, rows in tables.items()}
            path, num_bytes = self._spool.put(Batch(where, whole))
        except (OSError, pa.ArrowException) as error:
            log.debug("trace_hooks: cannot hand rows over: %s", error)
            return False
        self._waiting.append((path, num_bytes, time.monotonic()))
        return True

    def _may_hand_over(self) -> bool:
        is_stuck = self._oldest_s() > STUCK_S
        waiting = sum(num_bytes for _, num_bytes, _ in self._waiting)
        return (
            not is_stuck
            and waiting < MOST_WAITING_BYTES
            and self._spool.free_bytes() >= LEAST_FREE_BYTES
            and self._is_collected()
        )

    def _is_collected(self) -> bool:
        """Whether a collector lives, or may still come."""
        if self._spool.has_collector():
            self._awaited_until_s = 0.0
            return True
        return time.monotonic() < self._awaited_until_s

    def _oldest_s(self) -> float:
        """How long the oldest batch has waited that nobody has taken; 0 without one."""
        while self._waiting and not self._waiting[0][0].exists():
            self._waiting.popleft()
        return time.monotonic() - self._waiting[0][2] if self._waiting else 0.0

    def _take_over(self) -> None:
        """Publish what waits, unless a collector lives."""
        with self._spool.no_collector() as is_so:
            if is_so:
                self._take_back(BATCH, TAKEN, MINE)
                self._adopt_orphans()

    def _take_back(self, *states: str) -> None:
        """Publish batches of this rank that are in one of these states."""
        for path in self._spool.own(*states):
            with suppress(FileNotFoundError):  # another rank was first
                self._publish(path)

    def _adopt_orphans(self) -> None:
        """Publish what the batches of dead ranks hold, which nobody else publishes."""
        for path in self._spool.batches(BATCH, TAKEN, MINE):
            with suppress(FileNotFoundError):  # another rank was first
                if is_of_watchdog(path) or time.time() - path.stat().st_mtime > ORPHAN_S:
                    self._publish(path)

    def _publish(self, path: Path) -> None:
        spool = self._spool
        mine = spool.settle(path, spool.claim) if path.suffix == TAKEN else spool.claim(path)
        if mine is not None:
            self._num_published += publish_claimed(mine)

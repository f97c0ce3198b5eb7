"""The collector of a host: publishes the rows of all its ranks together, in few files.

Runs on a thread of the watchdog (collector_thread.py). It takes what the ranks left in the spool
(trace_hooks/job/spool.py) and publishes one bundle for each run: every WATCHED_S while somebody
looks at the run, else every IDLE_S, and at once where much waits or a rank ends. If it is killed,
at whatever moment, the ranks publish what it has not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from trace_hooks.job.handover import ORPHAN_S, PUBLISH_EVERY_S, PUBLISH_NOW
from trace_hooks.job.spool import (
    BATCH,
    MINE,
    TAKEN,
    Batch,
    Destination,
    Spool,
    is_there,
    publish_claimed,
    read_batch,
    taken_for,
    unpublished_bundle,
)
from trace_hooks.recording import guard
from trace_hooks.schema.bundles import BundleName, write_bundle
from trace_hooks.watchdog.viewers import Viewers

log = logging.getLogger("trace_hooks")

TICK_S = 0.2
WATCHED_S = 0.7
"""Two hosts' bundles in a second of watching are what a shared disk bears at 1,000 hosts."""
IDLE_S = PUBLISH_EVERY_S
"""What the loss of a host costs at most."""
MOST_BYTES = 64 << 20
"""This much is published at once: Arrow's rows take some ten times as many bytes as Parquet's."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0

REMAINS = (".tmp", ".damaged")
"""Files that killed ranks left half-written, and what cannot be read."""

Taken = list[tuple[Path, Batch]]


class Collector:
    """Publishes what is in the spool of a meeting folder; only the constructor raises OSError."""

    def __init__(self, meeting: Path, hurry: threading.Event | None = None) -> None:
        """`hurry`: set where rows must not wait."""
        self._spool = Spool(meeting, "collector")
        self._viewers = Viewers()
        self._published_s = -IDLE_S  # monotonic; the first rows are published at once
        self._paused_until_s, self._pause_s = 0.0, FIRST_PAUSE_S
        self._is_unsettled = False  # batches were taken, and it is not known what became of them
        self._newest = 0
        self._hurry = hurry or threading.Event()

    def run(self, stopping: threading.Event) -> None:
        """Publish until `stopping` is set, then everything, and give the spool back."""
        self._spool.become_collector()
        self._recover()
        while not stopping.wait(TICK_S):
            guard.attempt("collector.turn", self.turn, switch_off=False)
        guard.attempt("collector.end", self.end, switch_off=False)
        self._spool.close()

    def end(self) -> None:
        """Publish everything: the ranks have ended."""
        self.turn(is_last=True)
        for path in self._spool.batches(MINE):  # their ranks were killed while they published them
            with suppress(OSError, ValueError):
                if time.time() - path.stat().st_mtime > ORPHAN_S:
                    publish_claimed(path)
        for path in self._spool.batches(*REMAINS):
            path.unlink(missing_ok=True)

    def publish_leftovers(self) -> bool:
        """Publish what a job left whose ranks and watchdog were killed together; False where
        another process does, or rows must wait.
        """
        is_done = not self._spool.has_collector()
        if is_done:
            self._spool.become_collector()
            is_done = self._forget_deleted_runs()
            if is_done:
                self._recover()
                self.end()
        self._spool.close()
        return is_done

    def _forget_deleted_runs(self) -> bool:
        """Remove batches of runs whose folder is gone. False where the folder of runs is gone or
        empty, too: its disk may come back.
        """
        for path in self._spool.batches(BATCH, TAKEN, MINE):
            with suppress(OSError, ValueError):
                run = read_batch(path).destination.folder
                if is_there(run):
                    continue
                if not run.parent.is_dir() or not any(run.parent.iterdir()):
                    return False
                path.unlink()
        return True

    def turn(self, is_last: bool = False) -> None:
        """Publish what waits, if that is due."""
        now_s = time.monotonic()
        if now_s < self._paused_until_s and not is_last:
            return
        try:
            if self._is_unsettled:
                self._recover()
            waiting = self._spool.batches(BATCH)
            if waiting and (is_last or self._is_due(waiting, now_s)):
                self._pause(now_s)  # should anything go wrong
                for portion in _portions(waiting):
                    self._publish_all(portion)
                self._published_s = now_s
                self._paused_until_s, self._pause_s = 0.0, FIRST_PAUSE_S
        except (OSError, pa.ArrowException) as error:
            log.debug("cannot publish: %s", error)

    def _pause(self, now_s: float) -> None:
        self._paused_until_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _is_due(self, waiting: Sequence[Path], now_s: float) -> bool:
        now_file = self._spool.folder / PUBLISH_NOW
        is_asked = self._hurry.is_set() or now_file.exists()
        self._hurry.clear()
        now_file.unlink(missing_ok=True)  # before the spool is listed again
        since_s = now_s - self._published_s
        if is_asked or since_s >= IDLE_S:
            return True
        if since_s >= WATCHED_S and self._viewers.are_there(now_s):
            return True
        most_bytes = min(MOST_BYTES, self._spool.total_bytes() // 8)
        return sum(_size(path) for path in waiting) >= most_bytes

    def _publish_all(self, waiting: Iterable[Path]) -> None:
        """One bundle for each run and attempt. Raises OSError and pa.ArrowException."""
        groups: dict[tuple[Path, int], Taken] = defaultdict(list)
        for path in waiting:
            batch = self._read(path)
            if batch is not None:
                where = batch.destination
                groups[where.folder, where.attempt].append((path, batch))
        for (folder, attempt), taken in groups.items():
            self._viewers.look_in(folder)
            lowest = min(batch.destination.rank for _, batch in taken)
            self._publish(Destination(folder, attempt, lowest), taken)

    def _read(self, path: Path) -> Batch | None:
        try:
            return read_batch(path)
        except FileNotFoundError:  # its rank took it back
            return None
        except ValueError as error:
            log.warning("trace_hooks: %s is damaged: %s", path, error)
            path.rename(path.with_suffix(".damaged"))
            return None

    def _publish(self, where: Destination, batches: Taken) -> None:
        self._newest = max(time.time_ns(), self._newest + 1)
        name = BundleName(where.attempt, where.rank, self._newest)
        temporary = unpublished_bundle(where.folder, name.number)
        # never the run folder: a container of its own may have another disk there than the ranks
        temporary.parent.mkdir(exist_ok=True)
        taken: Taken = []
        self._is_unsettled = True
        try:
            with temporary.open("xb") as file:
                for path, batch in batches:
                    with suppress(FileNotFoundError):  # its rank took it back
                        taken.append((path.rename(taken_for(path, name.number)), batch))
                self._newest += write_bundle(file, name, _merged(batch for _, batch in taken))
            if taken:
                temporary.replace(temporary.with_name(str(name)))
                self._spool.count_published()
                for path, _ in taken:
                    path.unlink(missing_ok=True)
                self._is_unsettled = False
        finally:
            if not taken:
                temporary.unlink(missing_ok=True)
            if self._is_unsettled:
                self._recover()

    def _recover(self) -> None:
        """Remove batches that were taken and published, and put back those that were not: a file
        server may report the failure of what it has done, or say nothing for a while.
        """
        for path in self._spool.batches(TAKEN):
            with suppress(OSError, ValueError):
                self._spool.settle(path, lambda taken: taken.rename(_given_back(taken)))
        self._is_unsettled = bool(self._spool.batches(TAKEN))


def _portions(waiting: Sequence[Path]) -> Iterator[list[Path]]:
    """Batches that are in memory together."""
    portion: list[Path] = []
    num_bytes = 0
    for path in waiting:
        portion.append(path)
        num_bytes += _size(path)
        if num_bytes >= MOST_BYTES:
            yield portion
            portion, num_bytes = [], 0
    if portion:
        yield portion


def _merged(batches: Iterable[Batch]) -> dict[str, pa.Table]:
    """The rows of each table, rank by rank."""
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for batch in sorted(batches, key=lambda batch: batch.destination.rank):
        for table, rows in batch.tables.items():
            parts[table].append(rows)
    return {table: pa.concat_tables(rows).unify_dictionaries() for table, rows in parts.items()}


def _given_back(taken: Path) -> Path:
    stem, number, *_ = taken.name.split(".")
    return taken.with_name(f"{stem}.{number}{BATCH}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

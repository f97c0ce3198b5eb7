"""Batches of rows in node-local memory, on their way from the ranks of a host to its collector.

spool/STEM.NUMBER.batch            handed over; STEM names the process that wrote it
spool/STEM.NUMBER.BUNDLE.taken     a collector is publishing it in the bundle of that number
spool/STEM.NUMBER.mine             a process is publishing it as segments

Whoever renames a batch has it, so nobody else publishes it. A batch is a line of JSON that says
where its rows belong, and an Arrow stream for each table. It is in the kernel's memory: it outlives
the process that wrote it, and the collector.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the watchdog, which opens the spool, loads it only when rows wait
    import pyarrow as pa

BATCH, TAKEN, MINE = ".batch", ".taken", ".mine"

OF_WATCHDOG = ("watchdog", "telemetry")
MOST_OF_WATCHDOG_BYTES = 8 << 20
"""Bytes of one part of the watchdog that wait: a container may have 64 MiB of node-local memory,
which data loaders and NCCL need.
"""

_COUNT = struct.Struct("<q")
LOCK = "collector.lock"
"""Held by the collector while it lives: the kernel gives it back when that dies. Its content is how
many bundles were published."""


@dataclass(frozen=True)
class Destination:
    """Where rows belong. `rank`: names the files."""

    folder: Path
    attempt: int
    rank: int


@dataclass(frozen=True)
class Batch:
    """Rows of one process: tables with the columns of the schema, by name."""

    destination: Destination
    tables: Mapping[str, pa.Table]


class Spool:
    """The batches in a host's meeting folder, as the process `stem` sees them; raises OSError where
    the folder cannot be made.
    """

    def __init__(self, meeting: Path, stem: str) -> None:
        self.folder = meeting / "spool"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._stem = stem
        self._newest = 0
        self._lock = meeting / LOCK
        self._held: int | None = None  # descriptor of the lock, of a collector
        os.close(self._opened())

    def _opened(self) -> int:
        """The lock's file. A rank does not keep it open: a job may close all descriptors, and open
        files of its own under their numbers.
        """
        return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def become_collector(self) -> None:
        """Hold the lock from now on; waits while another collector has it."""
        self._held = self._opened()
        fcntl.flock(self._held, fcntl.LOCK_EX)

    def has_collector(self) -> bool:
        """Whether a collector lives."""
        with self.no_collector() as is_so:
            return not is_so

    @contextmanager
    def no_collector(self) -> Iterator[bool]:
        """Whether no collector lives; none begins then before the block ends. Raises OSError."""
        lock = self._opened()
        try:
            yield _is_free(lock)
        finally:
            with suppress(OSError):  # closing is not enough: a process forked meanwhile has it open
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    @property
    def num_published(self) -> int:
        """Bundles that the collectors of this meeting folder have published so far."""
        try:
            content = self._lock.read_bytes()
        except OSError:  # the watchdog has ended, and has removed it
            return 0
        return int(_COUNT.unpack(content)[0]) if len(content) == _COUNT.size else 0

    def count_published(self) -> None:
        """One more bundle is published (the collector)."""
        if self._held is not None:
            os.pwrite(self._held, _COUNT.pack(self.num_published + 1), 0)

    def close(self) -> None:
        """Give the lock back."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def put(self, batch: Batch) -> tuple[Path, int]:
        """Hand a batch over; its path and bytes. Raises OSError and pa.ArrowException."""
        import pyarrow as pa

        self._newest = max(time.time_ns(), self._newest + 1)
        path = self.folder / f"{self._stem}.{self._newest}{BATCH}"
        temporary = path.with_suffix(".tmp")
        try:
            with temporary.open("xb") as file:
                where = asdict(batch.destination) | {"folder": str(batch.destination.folder)}
                file.write(json.dumps(where).encode() + b"\n")
                for table in batch.tables.values():
                    with pa.ipc.new_stream(file, table.schema) as stream:
                        stream.write_table(table)
                num_bytes = file.tell()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path, num_bytes

    def put_of_watchdog(self, batch: Batch) -> None:
        """As `put`, for a part of the watchdog, unless much of it waits already, as while the disk
        of the run is full or hangs: raises OSError then, too.
        """
        with suppress(FileNotFoundError):  # one is being published: the next call looks again
            waiting = sum(path.stat().st_size for path in self.own(BATCH, TAKEN))
            if waiting >= MOST_OF_WATCHDOG_BYTES:
                raise OSError(errno.ENOSPC, f"{waiting} bytes wait for the collector")
        self.put(batch)

    def batches(self, *states: str) -> list[Path]:
        """Batches in one of these states, oldest first."""
        found = [path for path in self.folder.iterdir() if path.suffix in states]
        return sorted(found, key=number_of)

    def own(self, *states: str) -> list[Path]:
        """Those of this process."""
        return [path for path in self.batches(*states) if path.name.startswith(f"{self._stem}.")]

    def free_bytes(self) -> int:
        """What is free of the memory's file system."""
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_frsize

    def total_bytes(self) -> int:
        """Size of the memory's file system."""
        state = os.statvfs(self.folder)
        return state.f_blocks * state.f_frsize

    def settle(self, taken: Path, give: Callable[[Path], Path | None]) -> Path | None:
        """Decide over a batch that a dead collector had taken: remove it where it was published,
        else `give` it a new name, which is returned. Raises OSError and ValueError.
        """
        if is_published(taken):
            taken.unlink(missing_ok=True)
            return None
        folder, bundle = read_batch(taken).destination.folder, bundle_of(taken)
        given = give(taken)
        if bundle not in {bundle_of(path) for path in self.batches(TAKEN)}:  # the last of them
            unpublished_bundle(folder, bundle).unlink(missing_ok=True)
        return given

    def claim(self, path: Path) -> Path | None:
        """Take a batch to publish it as segments; None where another process was first."""
        mine = self.folder / f"{self._stem}.{number_of(path)}{MINE}"
        if mine != path and mine.exists():  # of another process, with the same number: later
            return None
        with suppress(FileNotFoundError):
            os.utime(path)  # nobody takes it for an orphan
            return path.rename(mine)
        return None


def _is_free(lock: int) -> bool:
    """Whether nobody holds the lock; the descriptor then shares it until it is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: no collector can have one
        return True
    return True


def number_of(path: Path) -> int:
    """Number of a batch, unique among those of a process: Unix ns."""
    return int(path.name.split(".")[1])


def is_of_watchdog(path: Path) -> bool:
    """Whether a batch is of a part of the process in which the collector is, and dies with it."""
    return path.name.split(".")[0] in OF_WATCHDOG


def bundle_of(taken: Path) -> int:
    """Number of the bundle for which a batch was taken."""
    return int(taken.name.split(".")[2])


def taken_for(path: Path, bundle: int) -> Path:
    """Name of a batch that is being published in the bundle of that number."""
    return path.with_suffix(f".{bundle}{TAKEN}")


def read_batch(path: Path) -> Batch:
    """A batch; raises OSError, and ValueError where it is none."""
    import pyarrow as pa

    line, _, content = path.read_bytes().partition(b"\n")
    where = json.loads(line)
    try:
        destination = Destination(Path(where["folder"]), int(where["attempt"]), int(where["rank"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.name} does not say where its rows belong") from error
    return Batch(destination, dict(_tables(pa.BufferReader(content), len(content))))


def _tables(content: pa.BufferReader, size: int) -> Iterator[tuple[str, pa.Table]]:
    import pyarrow as pa

    while content.tell() < size:
        with pa.ipc.open_stream(content) as stream:
            table = stream.read_all()
        yield table.schema.metadata[b"rankscope.table"].decode(), table


def unpublished_bundle(folder: Path, number: int) -> Path:
    """File of a run folder in which a bundle is written.

    It is there before the first batch is taken for the bundle, and gets its final name once whole.
    So batches that were taken are published where it is not there any more.
    """
    return folder / "segments" / f".bundle-{number}.tmp"


def is_published(taken: Path) -> bool:
    """Whether a collector that has died published a batch that it had taken.

    Raises OSError, and ValueError where it is no batch.
    """
    folder = read_batch(taken).destination.folder
    (folder / "segments").stat()  # else the folder is away, and nothing can be said
    return not is_there(unpublished_bundle(folder, bundle_of(taken)))


def is_there(path: Path) -> bool:
    """Whether a file exists; raises OSError where the system does not say, as of a stale handle.

    Path.exists says False then, from Python 3.14 on.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def publish_claimed(path: Path) -> int:
    """Publish a batch as segments and remove it; again, should it have been interrupted: the names
    of the segments follow from the batch. Returns their number; raises OSError and ValueError.
    """
    from trace_hooks.schema import SegmentName, publish_table

    batch, number = read_batch(path), number_of(path)
    where = batch.destination
    folder = where.folder / "segments"
    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in batch.tables.items():
        publish_table(rows, folder / str(SegmentName(table, where.attempt, where.rank, number)))
    path.unlink(missing_ok=True)
    return len(batch.tables)

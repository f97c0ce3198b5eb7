"""What a data loader's worker process fetched: a ring in node-local memory, read by its rank.

The rank makes one file for each worker before they start and keeps it mapped; the worker maps it by
its path, whatever way it was started. Each record has its number at both ends, so a reader leaves
out what is being written; records that were overwritten before they were read are counted. Imports
no torch and no pyarrow: it runs in workers.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

CAPACITY = 512
"""Records kept; a rank reads them about once a second."""

_HEADER = struct.Struct("<8sqq")
_MAGIC = b"RSFETCH1"
_FIRST_AT = 64
_RECORD = struct.Struct("<qqqqqqiii4xd32s32sq")
_SIZE = _FIRST_AT + CAPACITY * _RECORD.size


class FetchRecord(NamedTuple):
    """One call of a worker's fetcher, or its part that fetched samples of one source. Times in ns,
    `begin_ns` of the host's monotonic clock. `wall_ns` -1: of the source only `samples` are known.

    `is_source`: of a mixture; its share as planned is `planned`, -1 unknown. `read_bytes`: of read
    calls, cached or not; -1 unknown. `transform`: the longest of those that the dataset marks with
    trace_hooks.transform, '' none.
    """

    number: int  # from 1, of this worker
    begin_ns: int
    wall_ns: int
    cpu_ns: int
    transform_ns: int
    read_bytes: int
    fetch: int  # number of the call
    samples: int
    is_source: bool
    planned: float
    source: str
    transform: str


class FetchRing:
    """A worker's ring: `create` is for the rank, `open` for the worker. Both raise OSError."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._number = 0  # written, or read, so far
        self.lost = 0  # records that were overwritten unread

    @classmethod
    def create(cls, path: Path) -> FetchRing:
        """Make the file; real pages, since writing into a hole of a full file system kills."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(file, 0, _SIZE)
            ring = cls(mmap.mmap(file, _SIZE))
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(file)
        _HEADER.pack_into(ring._map, 0, _MAGIC, 0, 0)
        return ring

    @classmethod
    def open(cls, path: Path) -> FetchRing:
        """Map the file and note whose it is; raises ValueError where it is no ring."""
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if os.fstat(file).st_size != _SIZE:
                raise ValueError(f"{path} is not a ring of a loader's worker")
            ring = cls(mmap.mmap(file, _SIZE))
        finally:
            os.close(file)
        _HEADER.pack_into(ring._map, 0, _MAGIC, os.getpid(), 0)
        return ring

    @property
    def pid(self) -> int:
        """Of the worker; 0 while none has opened it."""
        return int(_HEADER.unpack_from(self._map)[1])

    def write(
        self,
        begin_ns: int,
        wall_ns: int,
        cpu_ns: int,
        transform_ns: int,
        read_bytes: int,
        fetch: int,
        samples: int,
        source: str,
        transform: str,
        is_source: bool = False,
        planned: float = -1.0,
    ) -> None:
        """Store one record (worker)."""
        self._number = number = self._number + 1
        _RECORD.pack_into(
            self._map,
            _place(number),
            number,
            begin_ns,
            wall_ns,
            cpu_ns,
            transform_ns,
            read_bytes,
            fetch,
            samples,
            is_source,
            planned,
            _bytes(source),
            _bytes(transform),
            number,
        )
        _HEADER.pack_into(self._map, 0, _MAGIC, os.getpid(), number)

    def take(self) -> list[FetchRecord]:
        """Records since the last call, oldest first (rank)."""
        written = int(_HEADER.unpack_from(self._map)[2])
        first = max(self._number, written - CAPACITY) + 1
        found = []
        for number in range(first, written + 1):
            fields = _RECORD.unpack_from(self._map, _place(number))
            own, *rest, is_source, planned, source, transform, again = fields
            if own == again == number:
                texts = _text(source), _text(transform)
                found.append(FetchRecord._make((own, *rest, bool(is_source), planned, *texts)))
        self.lost += written - self._number - len(found)
        self._number = written
        return found


def _place(number: int) -> int:
    return _FIRST_AT + (number % CAPACITY) * _RECORD.size


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:32]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace")

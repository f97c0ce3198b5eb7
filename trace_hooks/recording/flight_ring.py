"""Write-ahead log of one rank in node-local memory: which collective it was about to enter.

A ring of fixed-size records in a mapped file: a write is a few stores, before the call and without
a system call or flush. The page cache outlives the process, and the watchdog of the host reads it
afterwards. Each record has its number at both ends: where they differ, the rank died while writing
it. What ends is noted in its record. The header names the rank and holds its last heartbeat.
Imports no torch and no pyarrow.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAGIC = b"RSRING02"
CAPACITY = 4096
"""Records kept; at 128 bytes each the file takes half a megabyte of node-local memory."""

NOT_ENDED, END_UNKNOWN = 0, -1
"""Of a record: still entered; failed, or not waited for by anything that the hooks see."""

UNPLACED = -1
"""attempt and rank of a ring whose process does not know them yet."""

_HEADER = struct.Struct("<8sIIIiiiqq64s")
_BEAT = struct.Struct("<qqi20s20sq")
_BEAT_AT = 128
_FIRST_AT = 256
_RECORD = struct.Struct("<qqqqqqii40s16sqq")
_END = struct.Struct("<q")
_END_AT = 112
assert _RECORD.size == 128
assert _HEADER.size <= _BEAT_AT
assert _BEAT_AT + _BEAT.size <= _FIRST_AT


class RingRecord(NamedTuple):
    """One collective or transfer that was about to be entered."""

    number: int  # from 1, of this process
    time_ns: int  # monotonic clock of the host
    group_id: int
    seq: int
    num_bytes: int
    step: int
    peer: int
    tag: int
    op: str
    dtype: str
    end_ns: int  # monotonic; NOT_ENDED, END_UNKNOWN


@dataclass(frozen=True)
class RingHeader:
    """Whose ring it is, and the rank's last heartbeat."""

    capacity: int
    signal: int  # makes the rank write its stacks; 0: none
    pid: int
    start_ticks: int  # of the process, see process_info.start_ticks
    attempt: int
    rank: int
    world_size: int
    clock_offset_ns: int  # Unix - monotonic
    run: str
    beat_ns: int  # monotonic; 0 before the first
    step: int
    ended: bool
    phase: str
    last_op: str
    num_entered: int  # records written so far, as of the heartbeat


class Ring:
    """The ring of this process; implements rank_state.EnqueueRing. Only the constructor raises
    OSError.
    """

    def __init__(self, path: Path, start_ticks: int, clock_offset_ns: int, signal: int = 0) -> None:
        self.path = path
        self._identity = (signal, os.getpid(), UNPLACED, UNPLACED, 0)
        self._run = ""
        self._start_ticks = start_ticks
        self._clock_offset_ns = clock_offset_ns
        size = _FIRST_AT + CAPACITY * _RECORD.size
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            # real pages, not a hole: writing into a hole of a full file system kills by SIGBUS
            os.posix_fallocate(file, 0, size)
            self._map = mmap.mmap(file, size)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(file)
        self._numbers = itertools.count(1)  # next() is one step under the GIL: no number twice
        self._last = 0
        self._texts: dict[str, bytes] = {}
        self._write_header()

    def write(
        self,
        group_id: int,
        seq: int,
        op: str,
        dtype: str,
        num_bytes: int,
        peer: int,
        tag: int,
        step: int,
        time_ns: int,
    ) -> int:
        """Store one record, before the call it announces; its number, for `ended`."""
        texts = self._texts
        self._last = number = next(self._numbers)
        _RECORD.pack_into(
            self._map,
            _FIRST_AT + (number % CAPACITY) * 128,
            number,
            time_ns,
            group_id,
            seq,
            num_bytes,
            step,
            peer,
            tag,
            texts.get(op) or self._encoded(op),
            texts.get(dtype) or self._encoded(dtype),
            NOT_ENDED,
            number,
        )
        return number

    def ended(self, number: int, time_ns: int) -> None:
        """Note when what a record announced was seen to be complete (END_UNKNOWN: will not be)."""
        if self._last - number < CAPACITY:
            _END.pack_into(self._map, _FIRST_AT + (number % CAPACITY) * 128 + _END_AT, time_ns)

    def place(self, run: str, attempt: int, rank: int, world_size: int) -> None:
        """Write into the header whose ring this is, once that is known."""
        signal, pid, *_ = self._identity
        self._identity = (signal, pid, attempt, rank, world_size)
        self._run = run
        self._write_header()

    def beat(self, time_ns: int, step: int, phase: str, last_op: str, ended: bool = False) -> None:
        """Record a heartbeat (monotonic ns).

        No msync: the page cache outlives the process, and in Python it would hold the GIL.
        """
        _BEAT.pack_into(
            self._map,
            _BEAT_AT,
            time_ns,
            step,
            ended,
            _bytes(phase, 20),
            _bytes(last_op, 20),
            self._last,
        )

    @property
    def num_entered(self) -> int:
        """Records written so far."""
        return self._last

    def remove(self) -> None:
        """Delete the file: the rank ended in order, so nothing in it is needed."""
        self.path.unlink(missing_ok=True)

    def _write_header(self) -> None:
        signal, pid, attempt, rank, world_size = self._identity
        _HEADER.pack_into(
            self._map,
            0,
            MAGIC,
            CAPACITY,
            signal,
            pid,
            attempt,
            rank,
            world_size,
            self._start_ticks,
            self._clock_offset_ns,
            _bytes(self._run, 64),
        )

    def _encoded(self, text: str) -> bytes:
        if len(self._texts) > 1000:
            self._texts.clear()
        return self._texts.setdefault(text, _bytes(text, 40))


def _bytes(text: str, size: int) -> bytes:
    return text.encode("ascii", "replace")[:size]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("ascii", "replace")


def read_header(data: bytes) -> RingHeader:
    """Header of a ring's bytes; raises ValueError where they are not a ring."""
    if len(data) < _FIRST_AT or data[:8] != MAGIC:
        raise ValueError("this is not a ring of the hooks, or it has another version")
    _, capacity, signal, pid, attempt, rank, world_size, ticks, offset_ns, run = (
        _HEADER.unpack_from(data)
    )
    beat_ns, step, ended, phase, last_op, entered = _BEAT.unpack_from(data, _BEAT_AT)
    return RingHeader(
        capacity,
        signal,
        pid,
        ticks,
        attempt,
        rank,
        world_size,
        offset_ns,
        _text(run),
        beat_ns,
        step,
        bool(ended),
        _text(phase),
        _text(last_op),
        entered,
    )


def read_ring(path: Path) -> tuple[RingHeader, list[RingRecord]]:
    """Header and whole records of a ring, oldest first; a torn record is left out.

    Raises OSError, and ValueError where the file is not a ring.
    """
    data = path.read_bytes()
    header = read_header(data)
    records = []
    room = (len(data) - _FIRST_AT) // _RECORD.size
    for slot in range(min(header.capacity, room)):
        fields = _RECORD.unpack_from(data, _FIRST_AT + slot * _RECORD.size)
        number, *rest, op, dtype, end_ns, number_again = fields
        if number == number_again and number > 0 and number % header.capacity == slot:
            records.append(RingRecord._make((number, *rest, _text(op), _text(dtype), end_ns)))
    return header, sorted(records)

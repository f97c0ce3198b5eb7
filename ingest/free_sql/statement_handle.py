"""The process of a statement as the server sees it: a socket with rows, and a way to end it."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.stopping import Stop

_BUFFER_BYTES = 1 << 18
_REST_S = 60.0
"""A process that has waited this long for a further statement is not used again."""


class Holder(Protocol):
    """What the process of a statement was forked by."""

    def kill(self, pid: int) -> None:
        """Have a statement's process end, if it has not yet."""

    def entered(self) -> None:
        """A statement is under way; raises OSError where it takes none any more."""

    def left(self) -> None:
        """A statement has ended."""


class StatementHandle:
    """The process of a statement."""

    def __init__(self, holder: Holder, pid: int, line: socket.socket) -> None:
        self._holder = holder
        self._pid = pid
        self._line = line
        self._file = line.makefile("rb", buffering=_BUFFER_BYTES)
        self._frames: _FrameReader | None = None
        self._rests_since_s: float | None = None
        self._is_interrupted = False
        self.has_rested = False

    def begin(
        self, text: str, limit_s: float | None, stops: Sequence[Stop]
    ) -> pa.RecordBatchReader:
        """Hand it its text; its rows. Raises UserError, Ended, ArrowException, also while read.

        The caller detaches the stops when the statement has ended.
        """
        for stop in stops:
            stop.attach(self)
        wire.write_message(self._line.fileno(), {"text": text, "limit_s": limit_s})
        self._frames = _FrameReader(self._file.read)
        return pa.ipc.open_stream(io.BufferedReader(self._frames, _BUFFER_BYTES))

    def finish(self) -> None:
        """Read what follows the last row; raises Ended, UserError."""
        if self._frames is not None:
            self._frames.finish()

    @property
    def may_follow(self) -> bool:
        """Whether it takes another statement."""
        is_reusable = self._frames is not None and self._frames.end == wire.REUSABLE
        return is_reusable and not self._is_interrupted

    def rest(self) -> None:
        """It waits for a further statement, and is ended where its holder has to make room."""
        self._rests_since_s = time.monotonic()
        self.has_rested = True
        self._holder.left()

    def is_ready_again(self) -> bool:
        """Whether it still waits; it counts as under way from now on."""
        rested_s = time.monotonic() - (self._rests_since_s or 0.0)
        try:
            self._holder.entered()
        except OSError:  # it is being closed
            return False
        self._rests_since_s = None
        self._frames = None
        try:
            self._line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return rested_s < _REST_S
        except OSError:
            pass
        return False  # it has ended, or sends something unrequested

    def interrupt(self) -> None:
        """End it, from another thread; its reader sees the end."""
        self._is_interrupted = True
        self._holder.kill(self._pid)
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """It is not needed any more."""
        if self._file.closed:
            return
        self._holder.kill(self._pid)
        self._file.close()
        self._line.close()
        if self._rests_since_s is None:
            self._holder.left()


class _FrameReader(io.RawIOBase):
    """The data of the frames as a file for Arrow; an error among them is raised."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read
        self._rest = memoryview(b"")
        self.end: bytes | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, wanted: Any) -> int:
        """As much as there is, at most what fits; 0 at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        size = min(len(wanted), len(self._rest))
        wanted[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def finish(self) -> None:
        """Read to the end; raises UserError, Ended."""
        while self._next():
            pass

    def _next(self) -> bytes:
        """The next data, b'' at the end."""
        if self.end is not None:
            return b""
        kind, content = wire.read_frame(self._read)
        if kind == wire.ERROR:
            raise UserError(content.decode(errors="replace"))
        if kind == wire.END:
            self.end = content
            return b""
        return content

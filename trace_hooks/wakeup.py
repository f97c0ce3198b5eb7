"""Wakes the drain thread: by a call, or by a signal even while the main thread is stuck in C."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

PLAIN = b"\0"


class Wakeup:
    """A socket pair; its write end can serve signal.set_wakeup_fd, which writes signal numbers."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        """File descriptor of the write end."""
        return self._writer.fileno()

    def wake(self) -> None:
        """End the running or the next wait."""
        with suppress(OSError):  # full: a wake-up is on its way already
            self._writer.send(PLAIN)

    def wait(self, seconds: float) -> bytes:
        """Wait for a wake-up or so many seconds; returns the numbers of signals that came."""
        if not select.select([self._reader], [], [], seconds)[0]:
            return b""
        with suppress(BlockingIOError):
            return self._reader.recv(4096).replace(PLAIN, b"")
        return b""

    def close(self) -> None:
        """Give both ends back."""
        self._reader.close()
        self._writer.close()

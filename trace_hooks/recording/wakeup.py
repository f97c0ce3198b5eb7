"""Wakes the drain thread: by a call, or by a signal even while the main thread is stuck in C.

It uses poll: select refuses the high descriptors of jobs that keep a thousand files open.
"""

from __future__ import annotations

import select
import signal
import socket
import time
from contextlib import suppress

PLAIN = b"\0"


class Wakeup:
    """A socket pair; its write end can serve signal.set_wakeup_fd, which writes signal numbers."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def fileno(self) -> int:
        """File descriptor of the write end."""
        return self._writer.fileno()

    def wake(self) -> None:
        """End the running or the next wait."""
        with suppress(OSError):  # full: a wake-up is on its way already
            self._writer.send(PLAIN)

    def wait(self, seconds: float) -> bytes:
        """Wait for a call, SIGTERM or this many seconds; returns the numbers of signals that came.

        Other signals do not end it: a job may have a timer that sends a thousand a second. Where
        the program has closed our descriptors (daemons close all), it only sleeps.
        """
        until_s, signals = time.monotonic() + seconds, b""
        try:
            while self._poll.poll(max(0.0, until_s - time.monotonic()) * 1e3):
                came = self._reader.recv(4096)
                signals += came.replace(PLAIN, b"")
                if PLAIN in came or signal.SIGTERM in came or time.monotonic() >= until_s:
                    break
        except BlockingIOError:
            pass
        except OSError:
            time.sleep(seconds)
        return signals

    def close(self) -> None:
        """Close both ends."""
        for end in (self._reader, self._writer):
            with suppress(OSError):  # closed already
                end.close()

"""Wakes the drain thread: by a call, or by a signal even while the main thread is stuck in C.

It uses poll: select refuses the high descriptors of jobs that keep a thousand files open.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress

PLAIN = b"\0"


class Wakeup:
    """A socket pair; its write end can serve signal.set_wakeup_fd, which writes signal numbers.

    A program may close our descriptors (daemons close all), and open files of its own under their
    numbers: those are neither read nor written nor closed.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._places = {end: opened_as(end.fileno()) for end in (self._reader, self._writer)}
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def fileno(self) -> int:
        """File descriptor of the write end."""
        return self._writer.fileno()

    def wake(self) -> None:
        """End the running or the next wait."""
        with suppress(OSError):  # full: a wake-up is on its way already
            if self._is_ours(self._writer):
                self._writer.send(PLAIN)

    def wait(self, seconds: float) -> bytes:
        """Wait for a call, SIGTERM or this many seconds; returns the numbers of signals that came.

        Other signals do not end it: a job may have a timer that sends a thousand a second. Where
        the program has closed our descriptors, it only sleeps.
        """
        until_s, signals = time.monotonic() + seconds, b""
        try:
            while self._is_ours(self._reader) and self._poll.poll(_ms_until(until_s)):
                if not self._is_ours(self._reader):
                    break
                came = self._reader.recv(4096)
                if not came:  # only the other end is closed
                    break
                signals += came.replace(PLAIN, b"")
                if PLAIN in came or signal.SIGTERM in came or time.monotonic() >= until_s:
                    return signals
        except BlockingIOError:
            return signals
        except OSError:
            pass
        time.sleep(_ms_until(until_s) / 1e3)
        return signals

    def close(self) -> None:
        """Close both ends."""
        for end in (self._reader, self._writer):
            if self._is_ours(end):
                end.close()
            else:
                end.detach()

    def _is_ours(self, end: socket.socket) -> bool:
        return opened_as(end.fileno()) == self._places[end]


def opened_as(descriptor: int) -> tuple[int, int] | None:
    """What a descriptor stands for, to tell when it is another's; None where it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _ms_until(until_s: float) -> float:
    return max(0.0, until_s - time.monotonic()) * 1e3

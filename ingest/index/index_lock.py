"""The right to write a run's index, also where hosts that share its folder do not share locks.

The kernel's lock (OwnerLock) excludes processes of one host. Between hosts it holds only
if the file server passes locks on, which some mounts turn off. So the owner also writes into the
file which host it is on, touches it once a second, and blanks it when it gives the index back. A
process of another host that gets the lock waits until nobody has touched the file for LEASE_S. An
owner that was taken for dead sees another name there before it commits or publishes anything.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from ingest.errors import disk_error
from ingest.index.snapshots import OwnerLock

TOUCH_EVERY_S = 1.0
LEASE_S = 3.0
"""An owner that touches nothing for so long is dead, or its host is."""
_LOOK_EVERY_S = 0.2
_SLOW_LOOK_S = 2 * _LOOK_EVERY_S
"""A look that took longer says nothing: what hung may have hung for the owner, too."""
_MOST_SLOW_LOOKS = 5
"""Where so many were slow the index is left to the owner, and may be asked for again."""
_LONGEST = 200
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def host_id() -> str:
    """Names the running kernel, whose locks its processes share, containers included."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return os.uname().nodename[:_LONGEST]


class IndexLock(OwnerLock):
    """The lock of the index in a folder."""

    def __init__(self, folder: Path, host: str | None = None) -> None:
        super().__init__(folder)
        self._host = host_id() if host is None else host
        self._given_back = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; waits for LEASE_S where a process of another host had it and
        did not give it back. Raises UserError where the file system has no locks or no room.
        """
        if not super().acquire():
            return False
        is_taken = False
        try:
            is_taken = self._take()
        except OSError as error:
            raise disk_error(str(self.path), error) from error
        finally:
            if not is_taken:
                super().release()
        if not is_taken:
            return False
        self._given_back.clear()
        self._thread = threading.Thread(target=self._touch, name="index lock", daemon=True)
        self._thread.start()
        return True

    def release(self) -> None:
        """Give it back."""
        if self._thread is not None:
            self._given_back.set()
            self._thread.join()
            self._thread = None
            if self.is_ours:
                with suppress(OSError):  # the disk is gone: whoever indexes says so
                    self._write("")
        super().release()

    @property
    def is_ours(self) -> bool:
        """Whether no process of another host has taken it meanwhile, as after a long pause."""
        return self._last_owner()[0] == self._host

    def _take(self) -> bool:
        """Write the own name into the file, unless a process of another host holds it."""
        seen = self._last_owner()
        is_named = seen[0] not in ("", self._host)
        if is_named and self._is_touched(seen):
            return False
        self._write(self._host)
        if not is_named:
            return True
        time.sleep(_LOOK_EVERY_S)  # a third host may have waited for the same, too
        return self.is_ours

    def _is_touched(self, seen: tuple[str, int]) -> bool:
        """Whether a process of another host touches the file, or may do so."""
        quiet_s, num_slow = 0.0, 0
        while quiet_s < LEASE_S and num_slow < _MOST_SLOW_LOOKS:
            begun_s = time.monotonic()
            time.sleep(_LOOK_EVERY_S)
            now = self._last_owner()
            if not now[0]:
                return False
            if now != seen:
                return True
            took_s = time.monotonic() - begun_s
            is_slow = took_s > _LOOK_EVERY_S + _SLOW_LOOK_S
            quiet_s = 0.0 if is_slow else quiet_s + took_s
            num_slow += is_slow
        return num_slow == _MOST_SLOW_LOOKS

    def _last_owner(self) -> tuple[str, int]:
        """The host in the file, and when it was touched, ns. Opening it asks the file server."""
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # the folder was deleted
            return "", 0
        with os.fdopen(number, "rb") as file:
            host = file.read(_LONGEST).decode("utf-8", errors="replace")
            return host.rstrip(), os.fstat(number).st_mtime_ns

    def _write(self, host: str) -> None:
        """In place of the name before, which needs no room on a full disk: blanks fill it up.
        Through a descriptor of its own: closing it brings the text to a file server.
        """
        number = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.pwrite(number, host.encode().ljust(_LONGEST), 0)
        finally:
            os.close(number)

    def _touch(self) -> None:
        while not self._given_back.wait(TOUCH_EVERY_S):
            if self._file is not None:
                with suppress(OSError):
                    os.utime(self._file)

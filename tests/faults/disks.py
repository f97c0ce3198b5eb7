"""A small disk of its own, which a test can fill and make read-only."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_BLOCK = b"\0" * 4096


class Disk:
    """A tmpfs at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Write until there is no room for a single block."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 20, len(_BLOCK)):
                with suppress(OSError):
                    while os.write(descriptor, b"\0" * size):
                        pass
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                os.write(descriptor, _BLOCK)
        finally:
            os.close(descriptor)

    def make_room(self) -> None:
        """Take away what `fill` wrote."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """Nothing can be written any more, not by root either; no file may be open for writing."""
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)

    def make_writable(self) -> None:
        """As it was."""
        subprocess.run(["mount", "-o", "remount,rw", self.folder], check=True)


@contextmanager
def mounted(folder: Path, mb: int) -> Iterator[Disk]:
    """A disk of this size; skips the test where this user may mount none."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)

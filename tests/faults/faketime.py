"""Processes whose wall clock a test can move, by libfaketime; the monotonic clock goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folders import REPO

_PLACES = (
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/faketime/libfaketimeMT.so.1"),
    Path("/usr/local/lib/faketime/libfaketimeMT.so.1"),
)
LIBRARY = next((path for path in _PLACES if path.exists()), None)
needs_faketime = pytest.mark.skipif(
    LIBRARY is None, reason="needs libfaketime (Debian: apt-get install libfaketime)"
)


SLEEP = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
"""Under libfaketime 0.9.10 (Debian's) Python's own sleep fails with EINVAL where the monotonic
clock is left alone (wolfcw/libfaketime issue 426).
"""


class Clock:
    """A wall clock in a file, which processes with `environ` read again and again."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._modules = folder / "modules"
        self._modules.mkdir()
        (self._modules / "sitecustomize.py").write_text(SLEEP)
        self.jump_to("+0")

    def jump_to(self, offset: str) -> None:
        """From now on the real time and this much: +1h, -1h."""
        new = self._file.with_suffix(".new")
        new.write_text(offset)
        new.replace(self._file)

    @property
    def environ(self) -> dict[str, str]:
        """Environment of a process that lives by this clock."""
        return {
            "PYTHONPATH": f"{self._modules}:{REPO}",
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

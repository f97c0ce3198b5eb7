"""Tells the writers of a run that somebody looks at it: they publish more often then.

The file `watched` in the run folder is touched while a page shows the run, and the collector of
each host (trace_hooks/watchdog/viewers.py) looks at it. A folder that may not be written stays as
it is.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

EVERY_S = 2.0
"""How often the file is touched; writers wait five times as long for the next touch."""

LIVE = ("running", "silent")
"""States of a run whose writers may look."""


class Viewers:
    """The pages that show one run."""

    def __init__(self, run_folder: Path) -> None:
        self._file = run_folder / "watched"
        self._due_s = 0.0

    def look(self, state: str) -> None:
        """Somebody looks at the run, which is in that state."""
        now_s = time.monotonic()
        if state not in LIVE or now_s < self._due_s:
            return
        self._due_s = now_s + EVERY_S
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            number = os.open(self._file, flags, 0o644)
            try:
                os.utime(number)
            finally:
                os.close(number)

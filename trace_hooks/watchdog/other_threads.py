"""Stacks of a rank's threads as one of them reads them, for the watchdog of its host.

faulthandler writes the main thread's stack at C level when a signal comes (rank_side.py). It must
not write those of the others, nor that of a main thread that runs Python: reading frames that
change meanwhile ends the process. Here the drain thread has them dumped while it holds the GIL
(recording/dumped_stack.py says why so), where the rank makes no progress.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trace_hooks.watchdog.stacks import MOST_FRAMES, MOST_THREADS

QUIET_S = 2.0
"""A rank writes them after so long without progress; its watchdog looks later than that."""
FRESH_S = 5.0
"""What was written longer ago is no longer so: the drain thread waits for the GIL, too."""

_MAIN = "Stack (most recent call first):"
_BLOCK = re.compile(
    r"^Thread 0x([0-9a-f]+)[^\n]*\(most recent call first\):\n((?:  [^\n]*\n)*)", re.MULTILINE
)
"""A thread of a dump, but not the one that is current."""


class OtherThreads:
    """Writes a file while progress stands still, and removes it once it goes on (drain thread)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._progress: tuple[object, ...] = ()
        self._since_s = 0.0
        self._is_written = False

    def see(self, *progress: object) -> None:
        """Take what changes with every progress; raises OSError."""
        now_s = time.monotonic()
        if progress != self._progress:
            self._progress, self._since_s = progress, now_s
            self.remove()
        elif now_s - self._since_s >= QUIET_S:
            temporary = self._path.with_suffix(".threads.tmp")
            temporary.write_text(_text_now(), encoding="utf-8", errors="replace")
            temporary.replace(self._path)
            self._is_written = True

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self._is_written:
            self._path.unlink(missing_ok=True)
            self._is_written = False


def text_of_threads(dump: str, main: int, names: Mapping[int, str]) -> str:
    """The threads of a dump of faulthandler but the one that made it, the main one last.

    `main`: ident of that one; `names`: of the others, by ident.
    """
    others: list[str] = []
    last = f"{_MAIN}\n"  # alone where there are so many threads that it is left out
    for block in _BLOCK.finditer(dump):
        ident, lines = int(block[1], 16), block[2].splitlines(keepends=True)[:MOST_FRAMES]
        if ident == main:
            last = "".join([last, *lines])
        elif len(others) < MOST_THREADS:
            name = names.get(ident, "").replace("\n", " ")
            head = f"Thread 0x{ident:016x} [{name}] (most recent call first):\n"
            others.append("".join([head, *lines]))
    return "".join(others) + last


def _text_now() -> str:
    """Of this process. No file stays open: a job may close all descriptors, and open its own."""
    # here, not above: the watchdog, which never calls this, stays small
    from trace_hooks.recording.dumped_stack import StackDump

    dump = StackDump()
    names = {thread.ident or 0: thread.name for thread in threading.enumerate()}
    return text_of_threads(dump.text(), threading.main_thread().ident or 0, names)


def without_main(text: str) -> str:
    """The other threads of what a rank wrote."""
    return text[: max(text.rfind(_MAIN), 0)]


def fresh_text(path: Path) -> str:
    """What a rank wrote just now; '' where it did not."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime <= FRESH_S:
            return path.read_text(encoding="utf-8", errors="replace")
    return ""

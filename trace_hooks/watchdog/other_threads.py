"""Stacks of a rank's threads as one of them reads them, for the watchdog of its host.

faulthandler writes the main thread's stack at C level when a signal comes (rank_side.py). It must
not write those of the others, nor that of a main thread that runs Python: reading frames that
change meanwhile ends the process. Here the drain thread reads them under the GIL, while the rank
makes no progress.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from trace_hooks.watchdog.stacks import MOST_FRAMES, MOST_THREADS

QUIET_S = 2.0
"""A rank writes them after so long without progress; its watchdog looks later than that."""
FRESH_S = 5.0
"""What was written longer ago is no longer so: the drain thread waits for the GIL, too."""

_MAIN = "Stack (most recent call first):"


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
            text = text_of_others() + text_of_main()
            temporary.write_text(text, encoding="utf-8", errors="replace")
            temporary.replace(self._path)
            self._is_written = True

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self._is_written:
            self._path.unlink(missing_ok=True)
            self._is_written = False


def text_of_others() -> str:
    """As faulthandler writes it: the threads but the main and the calling one, newest first."""
    left_out = {threading.main_thread().ident, threading.get_ident()}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines: list[str] = []
    frames = [item for item in sys._current_frames().items() if item[0] not in left_out]
    for ident, frame in frames[:MOST_THREADS]:
        name = names.get(ident, "").replace("\n", " ")
        lines.append(f"Thread 0x{ident:016x} [{name}] (most recent call first):")
        lines += _lines_of(frame)
    return "\n".join([*lines, ""]) if lines else ""


def text_of_main() -> str:
    """As faulthandler writes it: the main thread."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "\n".join([_MAIN, *_lines_of(frame), ""])


def without_main(text: str) -> str:
    """The other threads of what a rank wrote."""
    return text[: max(text.rfind(_MAIN), 0)]


def _lines_of(frame: FrameType | None) -> list[str]:
    lines: list[str] = []
    while frame is not None and len(lines) < MOST_FRAMES:
        code = frame.f_code
        file = code.co_filename.replace("\n", " ")
        lines.append(f'  File "{file}", line {frame.f_lineno or 0} in {code.co_name}')
        frame = frame.f_back
    return lines


def fresh_text(path: Path) -> str:
    """What a rank wrote just now; '' where it did not."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime <= FRESH_S:
            return path.read_text(encoding="utf-8", errors="replace")
    return ""

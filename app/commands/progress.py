"""Progress on stderr: one changing line on a terminal, few lines in a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

from app import interrupts
from ingest.errors import printable

MB = 1e6
_EVERY_S = 0.2
_EVERY_S_IN_LOGS = 10.0
_CLEAR_LINE = "\r\x1b[K"


class ProgressLine:
    """Shows a text, unless one was shown a moment ago."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        # a log shows no progress of what is soon done
        self._shown_s = 0.0 if is_terminal else time.monotonic()

    def show(self, now_s: float, text_of: Callable[[], str]) -> None:
        """Show the text at a time, s (monotonic), if it is time for one."""
        if now_s - self._shown_s < (_EVERY_S if self._is_terminal else _EVERY_S_IN_LOGS):
            return
        self._shown_s = now_s
        text = text_of()
        if self._is_terminal:
            text = _CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1]
        print(text, end="" if self._is_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the terminal's line."""
        if self._is_terminal:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


class ReadingProgress:
    """Called with (bytes read, total bytes); `on_file` with the name of the current file."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._name = ""
        self._begun_s: float | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show the progress, unless it was shown a moment ago."""
        now_s = time.monotonic()
        if done and self._begun_s is None:
            self._begun_s = now_s
        elapsed_s = 0.0 if self._begun_s is None else now_s - self._begun_s
        self._line.show(now_s, lambda: progress_line(done, total, elapsed_s, self._name))

    def on_file(self, name: str) -> None:
        """Note the file that is being read."""
        self._name = PurePath(name).name


@contextmanager
def cleared_line() -> Iterator[ProgressLine]:
    """The line of one command; cleared at its end."""
    line = ProgressLine(sys.stderr.isatty())
    try:
        yield line
    finally:
        line.clear()


@contextmanager
def reading_progress() -> Iterator[ReadingProgress]:
    """Progress of one import."""
    with cleared_line() as line:
        yield ReadingProgress(line)


@contextmanager
def storing_progress() -> Iterator[Callable[[int, int], None]]:
    """Progress of storing one run: called with (bytes stored, total bytes)."""
    with cleared_line() as line:

        def show(done: int, total: int) -> None:
            interrupts.check()
            text = f"storing {done / MB:.0f} of {total / MB:.0f} MB"
            line.show(time.monotonic(), lambda: text)

        yield show


def progress_line(done: int, total: int, elapsed_s: float, name: str) -> str:
    """Bytes, rate, remaining time and the current file, as text.

    >>> progress_line(25_000_000, 100_000_000, 1.0, "rank-3.json")
    'reading 25 of 100 MB, 25 MB/s, 3 s left: rank-3.json'
    >>> progress_line(0, 100_000_000, 0.0, "")
    'checking whether 100 MB were imported before'
    """
    if not done and not name:
        return f"checking whether {total / MB:.0f} MB were imported before"
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    pace = f", {rate / MB:.0f} MB/s, {(total - done) / rate:.0f} s left" if rate else ""
    file = f": {printable(name)}" if name else ""
    return f"reading {done / MB:.0f} of {total / MB:.0f} MB{pace}{file}"

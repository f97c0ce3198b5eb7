"""Progress of reading files, on stderr and only where someone watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MB = 1e6
_EVERY_S = 0.2
_CLEAR_LINE = "\r\x1b[K"


@contextmanager
def reading_progress() -> Iterator[Callable[[int, int], None] | None]:
    """A callback (bytes read, bytes in all) that draws one line; None where stderr is no tty."""
    if not sys.stderr.isatty():
        yield None
        return
    began_s = time.monotonic()
    shown_s = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown_s
        now_s = time.monotonic()
        if now_s - shown_s >= _EVERY_S:
            shown_s = now_s
            text = progress_line(done, total, now_s - began_s)
            print(f"{_CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


def progress_line(done: int, total: int, elapsed_s: float) -> str:
    """Bytes, rate and remaining time in words.

    >>> progress_line(25_000_000, 100_000_000, 1.0)
    'reading 25 of 100 MB, 25 MB/s, 3 s left'
    """
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    left = f", {(total - done) / rate:.0f} s left" if rate else ""
    return f"reading {done / MB:.0f} of {total / MB:.0f} MB, {rate / MB:.0f} MB/s{left}"

"""Ctrl-C as usual, and remembered: a finalizer or DuckDB's opening may swallow the exception.

app.cli.main installs the handler; long verbs `check()` where they have just come out of something
that swallows.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked: list[int] = []


@contextmanager
def remembered() -> Iterator[None]:
    """Remember each Ctrl-C while the block runs; nothing elsewhere than in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.clear()
    handler = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _asked.clear()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _asked.append(number)
    raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt where one has been asked for, even if it was swallowed."""
    if _asked:
        raise KeyboardInterrupt


def forget() -> None:
    """The Ctrl-C was obeyed: what follows is another matter."""
    _asked.clear()

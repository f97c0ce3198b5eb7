"""Remembers each Ctrl-C: a finalizer or opening a DuckDB database may swallow KeyboardInterrupt.

app.cli.main installs the handler; long verbs call `check()` after anything that may swallow it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ingest.stopping import Stop

T = TypeVar("T")

_AGAIN_S = 0.1
_interrupts: list[int] = []


@contextmanager
def remembered() -> Iterator[None]:
    """Remember each Ctrl-C while the block runs; no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _interrupts.clear()
    handler = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        _interrupts.clear()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt if the user pressed Ctrl-C, even if the exception was swallowed."""
    if _interrupts:
        raise KeyboardInterrupt


def forget() -> None:
    """Forget earlier Ctrl-Cs, which were obeyed."""
    _interrupts.clear()


def stoppable(query: Callable[[Stop], T]) -> T:
    """Run `query(stop)` in a separate thread; Ctrl-C stops it and raises KeyboardInterrupt.

    In the main thread DuckDB would check for Ctrl-C only between the tasks of a query, and one task
    may last until the query's time limit.
    """
    from ingest.stopping import Stop  # imports DuckDB: half of the start-up time of other verbs

    stop = Stop()
    with ThreadPoolExecutor(1, "query") as thread:
        answer = thread.submit(query, stop)
        try:
            return answer.result()
        except KeyboardInterrupt:
            # repeated: DuckDB ignores one that comes before a query begins
            while not answer.done():
                stop()
                wait([answer], _AGAIN_S)
            raise

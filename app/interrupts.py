"""Ctrl-C as usual, and remembered: a finalizer or DuckDB's opening may swallow the exception.

app.cli.main installs the handler; long verbs `check()` where they have just come out of something
that swallows.
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


def stoppable(query: Callable[[Stop], T]) -> T:
    """`query(stop)` in a thread of its own, stopped by Ctrl-C, which raises KeyboardInterrupt.

    In the main thread DuckDB would look for one only between the tasks of a query, and one task
    may last until the query's time limit.
    """
    from ingest.stopping import Stop  # DuckDB: half of the start-up of verbs that ask nothing

    stop = Stop()
    with ThreadPoolExecutor(1, "query") as thread:
        answer = thread.submit(query, stop)
        try:
            return answer.result()
        except KeyboardInterrupt:
            while not answer.done():  # again: DuckDB forgets one that comes before a query begins
                stop()
                wait([answer], _AGAIN_S)
            raise

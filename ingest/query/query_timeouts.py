"""Calls made when a time is over, unless what they limit has ended before; one thread makes all.
A threading.Timer each would start a thread for every query, and wait until it runs.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NEVER = float("inf")


class TimeLimits:
    """Time limits of one process; safe to use from many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, tuple[float, Callable[[], object]]] = {}
        self._numbers = itertools.count()
        self._awake_s = _NEVER
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, seconds: float | None, call: Callable[[], object]) -> Iterator[None]:
        """Have `call` called, by another thread, when the block takes longer; None: no limit."""
        if seconds is None:
            yield
            return
        number = next(self._numbers)
        self._begin(number, time.monotonic() + seconds, call)
        try:
            yield
        finally:
            with self._changed:
                self._running.pop(number, None)

    def _begin(self, number: int, at_s: float, call: Callable[[], object]) -> None:
        with self._changed:
            self._running[number] = at_s, call
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="time limits", daemon=True)
                self._thread.start()
            elif at_s < self._awake_s:
                self._changed.notify()

    def _main(self) -> None:
        while True:
            self._wait_and_call()

    def _wait_and_call(self) -> None:
        with self._changed:
            now_s = time.monotonic()
            over = [number for number, (at_s, _) in self._running.items() if at_s <= now_s]
            calls = [self._running.pop(number)[1] for number in over]
            if not calls:
                ends_s = (at_s for at_s, _ in self._running.values())
                self._awake_s = min(ends_s, default=_NEVER)
                self._changed.wait(None if self._awake_s == _NEVER else self._awake_s - now_s)
        for call in calls:
            call()

"""What takes long is made anew only now and then while news come, whoever asks and how often."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ingest.store import Run

T = TypeVar("T")

REST = 5.0
"""An answer is left alone for so many times as long as it took to compute: a sixth of one core.
Where the cores are full it waits for them besides: what is due need not wait for that once more.
"""
LEAST_S = 1.0
_LONGEST_S = 60.0
"""Whoever was to make it anew has given up after so long."""


class Pace:
    """When one answer is to be made anew; safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._due_s = 0.0
        self._is_old = False

    def version(self, newest: int) -> int:
        """The version that the answer must have now; going up to the newest starts a rest."""
        with self._lock:
            if newest > self._version and time.monotonic() >= self._due_s:
                self._version, self._is_old = newest, False
                self._due_s = time.monotonic() + _LONGEST_S
            self._is_old |= newest > self._version
            return self._version

    def is_owed(self) -> bool:
        """Whether somebody was given an old answer and could have a newer one now; told once."""
        with self._lock:
            owed = self._is_old and time.monotonic() >= self._due_s
            self._is_old &= not owed
            return owed

    def timed(self, compute: Callable[[Run], T], run: Run) -> T:
        """`compute(run)`; the answer rests after it. What fails may be tried again at once."""
        begun_s = time.thread_time()
        rest_s = 0.0
        try:
            answer = compute(run)
            rest_s = max(LEAST_S, REST * (time.thread_time() - begun_s))
        finally:
            with self._lock:
                self._due_s = time.monotonic() + rest_s
                self._version -= rest_s == 0.0
        return answer

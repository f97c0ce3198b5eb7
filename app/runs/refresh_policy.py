"""What takes long is made anew only now and then while news come, whoever asks and how often, and
behind those who ask: they get what is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from ingest.run import Run
from ingest.stopping import Stop

T = TypeVar("T")
Compute = Callable[[Run, Stop | None], T]

REST = 3.0
"""An answer is left alone for so many times as long as it took to compute: a quarter of one core.
Where the cores are full it waits for them besides: what is due need not wait for that once more.
"""
LEAST_S = 1.0
OLDEST_S = 10.0
"""An answer that could have been made anew for so long is too old to be given to anybody."""
_NONE = -1


class Due(Enum):
    """What is to be done for who asks."""

    KEPT = "he gets what is kept"
    BEHIND = "he gets what is kept, and it is made anew behind him"
    NOW = "he waits for it"


class Pace:
    """When one answer is to be made anew; safe from many threads."""

    def __init__(self, compute: Compute[object]) -> None:
        self.compute = compute
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._made_s = 0.0
        self._is_made = False  # behind somebody, at this moment
        self._has_failed = False
        self._old_for = _NONE  # the newest version that somebody was given an older answer for

    def due(self, kept: int | None, newest: int) -> Due:
        """What to do for who asks, where the answer that is kept (None: none is) has this version;
        who is told BEHIND has to have it `timed`.
        """
        with self._lock:
            if kept is not None and kept >= newest:
                return Due.KEPT
            now_s = time.monotonic()
            is_too_old = self._has_failed or now_s > self._due_s + OLDEST_S
            if kept is None or (is_too_old and not self._is_made):
                return Due.NOW
            self._old_for = newest
            if self._is_made or now_s < self._due_s:
                return Due.KEPT
            self._is_made = True
            return Due.BEHIND

    def is_due(self, kept: int) -> bool:
        """Whether somebody has an older answer than could be made now; then as Due.BEHIND."""
        with self._lock:
            is_due = self._old_for > kept and time.monotonic() >= self._due_s
            is_due &= not self._is_made
            self._is_made |= is_due
            return is_due

    def is_owed(self, kept: int, told_s: float) -> bool:
        """Whether somebody has an older answer than this and has not been told of news since it was
        made, but at `told_s` (time.monotonic) last. True once.
        """
        with self._lock:
            is_there = _NONE < self._old_for <= kept
            self._old_for = _NONE if is_there else self._old_for
            return is_there and self._made_s > told_s

    def timed(self, run: Run, stop: Stop | None = None) -> object:
        """The answer, which rests after it. What fails is made while who asks next waits."""
        begun_s, has_failed = time.thread_time(), True
        try:
            answer = self.compute(run, stop)
            has_failed = False
        finally:
            rest_s = max(LEAST_S, REST * (time.thread_time() - begun_s))
            with self._lock:
                self._made_s = time.monotonic()
                self._due_s = self._made_s + rest_s
                self._is_made, self._has_failed = False, has_failed
        return answer

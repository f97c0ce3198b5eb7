"""When an expensive answer of a live run is computed again: at a bounded rate however
many ask, and in the background while the older answer is served.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any

from app.runs.policies import REST
from ingest.run import Run
from ingest.stopping import Stop

Compute = Callable[[Run, Stop | None], Any]

MOST_KEYS = 256
"""Answers of one run whose rate is known: an address may ask for any number of them."""
LEAST_REST_S = 1.0
"""An answer is computed again after REST times the CPU time that it took, and not before this. CPU
time, because where the cores are full it waits for them anyway."""
MOST_OVERDUE_S = 10.0
"""An answer that could have been computed again for this long is too old to be served."""
_NOBODY = -1


class Decision(Enum):
    """What a request gets."""

    SERVE = "the stored answer"
    SERVE_AND_REVALIDATE = "the stored answer; a new one is computed in the background"
    COMPUTE = "a new answer, for which it waits"


class Revalidation:
    """When one answer is computed again; safe from many threads."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._computed_s = 0.0
        self._is_under_way = False  # in the background
        self._has_failed = False
        self._newest_missed = _NOBODY
        """newest version about which somebody was served an older answer"""

    def decide(self, stored: int | None, newest: int) -> Decision:
        """What a request gets where the stored answer (None: there is none) has this version. After
        SERVE_AND_REVALIDATE `compute` has to be called.
        """
        with self._lock:
            if stored is not None and stored >= newest:
                return Decision.SERVE
            now_s = time.monotonic()
            is_too_old = self._has_failed or now_s > self._due_s + MOST_OVERDUE_S
            if stored is None or (is_too_old and not self._is_under_way):
                return Decision.COMPUTE
            self._newest_missed = newest
            if self._is_under_way or now_s < self._due_s:
                return Decision.SERVE
            self._is_under_way = True
            return Decision.SERVE_AND_REVALIDATE

    def is_due(self, stored: int) -> bool:
        """Whether somebody has an older answer than could be computed now; if so, `compute` has to
        be called.
        """
        with self._lock:
            is_due = self._newest_missed > stored and time.monotonic() >= self._due_s
            is_due &= not self._is_under_way
            self._is_under_way |= is_due
            return is_due

    def is_unannounced(self, stored: int, news_s: float) -> bool:
        """Whether somebody has an older answer than the stored one, and those of the last news were
        computed from `news_s` on, before it was. True once.
        """
        with self._lock:
            is_newer = _NOBODY < self._newest_missed <= stored
            self._newest_missed = _NOBODY if is_newer else self._newest_missed
            return is_newer and self._computed_s > news_s

    def compute(self, run: Run, stop: Stop | None = None) -> Any:
        """The answer, which then rests. After a failure the next request waits for a new one."""
        begun_s, has_failed = time.thread_time(), True
        try:
            answer = self._compute(run, stop)
            has_failed = False
        finally:
            rest_s = max(LEAST_REST_S, REST * (time.thread_time() - begun_s))
            with self._lock:
                self._computed_s = time.monotonic()
                self._due_s = self._computed_s + rest_s
                self._is_under_way, self._has_failed = False, has_failed
        return answer


class Revalidations:
    """Those of one run's answers; of the ones asked for least recently the rate is forgotten."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, Revalidation] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, compute: Compute) -> Revalidation:
        """The one of a key; `compute` is what computes the answer if it is new."""
        with self._lock:
            revalidation = self._by_key.setdefault(key, Revalidation(compute))
            self._by_key.move_to_end(key)
            while len(self._by_key) > MOST_KEYS:
                self._by_key.popitem(last=False)
            return revalidation

    def items(self) -> list[tuple[Hashable, Revalidation]]:
        """All of them, by key."""
        with self._lock:
            return list(self._by_key.items())

    def __len__(self) -> int:
        return len(self._by_key)

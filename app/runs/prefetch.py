"""Which answers of a run many pages ask for at each piece of news: they are computed before the
news are announced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ingest.run import Run
from ingest.stopping import Stop

REQUESTED_WITHIN_S = 4.0
"""An answer that nobody asked for in this time is not prefetched; pages ask every second or two."""
MOST_KEYS = 64
"""Answers of a run that may be prefetched; those asked for least recently are dropped."""
LEAST_REQUESTS = 3
"""Requests since the last news that make an answer worth prefetching. Below that the first request
computes it, and need not wait for the answers of others.
"""
MOST_EACH_S = 0.8
"""An answer that takes longer is not prefetched: it would delay the news."""
MOST_ALL_S = 1.2
"""All of them together: news are delayed by no more."""

T = TypeVar("T")
Compute = Callable[[Run, Stop | None], T]


@dataclass
class _Requested:
    compute: Compute[Any]
    requested_s: float
    took_s: float
    num_requests: int
    """since the last news"""


class Prefetch:
    """The answers of one run that may be prefetched; safe from many threads."""

    def __init__(self) -> None:
        self._requested: dict[Hashable, _Requested] = {}
        self._lock = threading.Lock()

    def requested(self, key: Hashable, compute: Compute[T]) -> Compute[T]:
        """Count a request for `key`; returns `compute`, which then notes how long it takes."""
        with self._lock:
            known = self._requested.pop(key, None)
            took_s, num_requests = (known.took_s, known.num_requests) if known else (0.0, 0)
            self._requested[key] = _Requested(compute, time.monotonic(), took_s, num_requests + 1)
            while len(self._requested) > MOST_KEYS:
                del self._requested[next(iter(self._requested))]
        return self._timed(key, compute)

    def served(self, key: Hashable) -> None:
        """Count a request for `key` that the cache has answered."""
        with self._lock:
            known = self._requested.pop(key, None)
            if known is not None:
                known.requested_s = time.monotonic()
                known.num_requests += 1
                self._requested[key] = known

    def due(self) -> Iterator[tuple[Hashable, Compute[Any]]]:
        """What is to be computed now, most recently asked for first, within MOST_ALL_S."""
        begun_s = time.monotonic()
        for key, compute in self._worth_it(begun_s):
            if time.monotonic() - begun_s > MOST_ALL_S:
                return
            yield key, self._timed(key, compute)

    def _worth_it(self, now_s: float) -> list[tuple[Hashable, Compute[Any]]]:
        with self._lock:
            for key in [
                key
                for key, known in self._requested.items()
                if now_s - known.requested_s > REQUESTED_WITHIN_S
            ]:
                del self._requested[key]
            chosen = [
                (key, known.compute)
                for key, known in reversed(self._requested.items())
                if known.took_s <= MOST_EACH_S and known.num_requests >= LEAST_REQUESTS
            ]
            for known in self._requested.values():
                known.num_requests = 0
        return chosen

    def _timed(self, key: Hashable, compute: Compute[T]) -> Compute[T]:
        def timed(run: Run, stop: Stop | None) -> T:
            begun_s = time.monotonic()
            value = compute(run, stop)
            with self._lock:
                if key in self._requested:
                    self._requested[key].took_s = time.monotonic() - begun_s
            return value

        return timed

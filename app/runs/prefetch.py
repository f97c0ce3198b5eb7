"""Which answers of a run people watch: what pages ask for again and again while it is live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ingest.run import Run

WATCHED_S = 4.0
"""An answer is watched for so long after it was asked for; pages ask each second or two."""
MOST = 64
"""Answers watched at once; the ones asked for least recently are let go of."""
SHARED = 3
"""So many askings of an answer since the last news: below that it is made for whoever asks first,
who then need not wait for those of others.
"""
MOST_EACH_S = 0.8
"""An answer that takes longer keeps nobody waiting: it is made when it is asked for."""
MOST_ALL_S = 1.2
"""All of them together: news are told no later than that."""

Compute = Callable[[Run], Any]
T = TypeVar("T")


@dataclass
class _Watch:
    compute: Compute
    asked_s: float
    took_s: float
    times: int
    """asked for since it was due last"""


class Watched:
    """The watched answers of one run; safe from many threads."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Watch] = {}
        self._lock = threading.Lock()

    def asked(self, key: Hashable, compute: Compute) -> None:
        """Note that somebody asked for `key`, which `compute` makes."""
        with self._lock:
            known = self._found.pop(key, None)
            took_s, times = (known.took_s, known.times) if known else (0.0, 0)
            self._found[key] = _Watch(compute, time.monotonic(), took_s, times + 1)
            while len(self._found) > MOST:
                del self._found[next(iter(self._found))]

    def asked_again(self, key: Hashable) -> None:
        """Note that somebody asked for `key` and got what is kept."""
        with self._lock:
            known = self._found.pop(key, None)
            if known is not None:
                known.asked_s = time.monotonic()
                known.times += 1
                self._found[key] = known

    def timed(self, key: Hashable, compute: Callable[[Run], T]) -> Callable[[Run], T]:
        """`compute`, which notes how long it took."""

        def make(run: Run) -> T:
            begun_s = time.monotonic()
            value = compute(run)
            with self._lock:
                if key in self._found:
                    self._found[key].took_s = time.monotonic() - begun_s
            return value

        return make

    def due(self) -> Iterator[tuple[Hashable, Compute]]:
        """What many ask for and is to be made anew now, most recently asked for first, within
        MOST_ALL_S.
        """
        begun_s = time.monotonic()
        with self._lock:
            for key in [k for k, w in self._found.items() if begun_s - w.asked_s > WATCHED_S]:
                del self._found[key]
            due = [
                (key, watch)
                for key, watch in reversed(self._found.items())
                if watch.took_s <= MOST_EACH_S and watch.times >= SHARED
            ]
            for watch in self._found.values():
                watch.times = 0
        for key, watch in due:
            if time.monotonic() - begun_s > MOST_ALL_S:
                return
            yield key, watch.compute

"""Answers in memory under one bound in bytes: each is computed once at a time, the least recently
used ones are evicted.

An interrupted answer is not stored, and the next waiter computes it again: a browser that leaves
takes nothing from another. cachetools.LRUCache would spare us the eviction only: it has neither
locks nor waiting for a computation under way, and refuses what is larger than the bound.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from app.runs.policies import FRESH, Policy
from ingest.stopping import Interrupted, Stop

T = TypeVar("T")

MOST_BYTES = 384 << 20
"""All stored answers together."""
MOST_ANSWERS = 4096
_LOOK_EVERY_S = 0.05
_MOST_DEPTH = 4
_MOST_PARTS = 256

request_stop: ContextVar[Stop | None] = ContextVar("request_stop", default=None)
"""Called when the browser of the request that this thread works for has left; app.web.answers sets
it."""


@dataclass(frozen=True)
class Cached(Generic[T]):
    """An answer, the version it is about, when its computation began (monotonic) and how long it
    took.
    """

    value: T
    version: int
    begun_s: float
    took_s: float
    policy: Policy
    num_bytes: int


@dataclass
class _Flight:
    """A key under computation, and how many wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    num_waiting: int = 0


class AnswerStore:
    """A least-recently-used cache bounded in bytes; safe from many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.num_bytes = 0
        self.most_bytes = most_bytes
        self._answers: OrderedDict[Hashable, Cached[Any]] = OrderedDict()
        self._flights: dict[Hashable, _Flight] = {}
        self._lock = threading.Lock()

    def get(
        self,
        key: Hashable,
        version: Callable[[], int],
        compute: Callable[[], T],
        policy: Policy = FRESH,
    ) -> Cached[T]:
        """The stored answer where the policy serves it, else `compute()`; raises Interrupted when
        the request is stopped while it waits.

        The version is read before computing: an answer may be newer than it says, never older.
        Those who waited for the computation get what it gave, even where the version has gone up
        since: on a live run each of them would compute it once more otherwise.
        """
        newest = version()
        stored = self._served(key, newest, policy)
        if stored is not None:
            return stored
        with self._flight(key):
            stored = self._served(key, newest, policy)
            if stored is None:
                stored = self._computed(key, version(), compute, policy)
            return stored

    def newest(self, key: Hashable) -> Cached[Any] | None:
        """What is stored, however old it is."""
        with self._lock:
            stored = self._answers.get(key)
            if stored is not None:
                self._answers.move_to_end(key)
            return stored

    def drop(self, is_chosen: Callable[[Hashable], bool], outdated_by: int | None = None) -> None:
        """Drop the answers whose key is chosen; with `outdated_by` only those about older versions
        whose policy serves no older answer.
        """

        def is_dropped(key: Hashable, stored: Cached[Any]) -> bool:
            is_old = outdated_by is not None and stored.version < outdated_by
            is_old &= not stored.policy.outlives_news
            return (outdated_by is None or is_old) and is_chosen(key)

        with self._lock:
            dropped = [key for key, stored in self._answers.items() if is_dropped(key, stored)]
            for key in dropped:
                self.num_bytes -= self._answers.pop(key).num_bytes

    def __len__(self) -> int:
        return len(self._answers)

    def _served(self, key: Hashable, newest: int, policy: Policy) -> Cached[Any] | None:
        stored = self.newest(key)
        if stored is None:
            return None
        is_newest, now_s = stored.version >= newest, time.monotonic()
        return stored if policy.serves(is_newest, stored.begun_s, stored.took_s, now_s) else None

    def _computed(
        self, key: Hashable, version: int, compute: Callable[[], T], policy: Policy
    ) -> Cached[T]:
        begun_s = time.monotonic()
        value = compute()
        took_s = time.monotonic() - begun_s
        num_bytes = size_of(key) + size_of(value)
        answer = Cached(value, version, begun_s, took_s, policy, num_bytes)
        self._put(key, answer)
        return answer

    def _put(self, key: Hashable, answer: Cached[Any]) -> None:
        with self._lock:
            old = self._answers.pop(key, None)
            self.num_bytes -= old.num_bytes if old else 0
            if answer.num_bytes > self.most_bytes:
                return  # it would evict all others, and then itself
            self.num_bytes += answer.num_bytes
            self._answers[key] = answer
            while self.num_bytes > self.most_bytes or len(self._answers) > MOST_ANSWERS:
                self.num_bytes -= self._answers.popitem(last=False)[1].num_bytes

    @contextmanager
    def _flight(self, key: Hashable) -> Iterator[None]:
        with self._lock:
            flight = self._flights.setdefault(key, _Flight())
            flight.num_waiting += 1
        try:
            _acquire(flight.lock)
            try:
                yield
            finally:
                flight.lock.release()
        finally:
            with self._lock:
                flight.num_waiting -= 1
                if not flight.num_waiting:
                    del self._flights[key]


def _acquire(lock: threading.Lock) -> None:
    """Wait for the lock until the request is stopped."""
    stop = request_stop.get()
    while not lock.acquire(timeout=_LOOK_EVERY_S if stop else -1):
        if stop and stop.called:
            raise Interrupted("the request was stopped while it waited for another one's answer")


def size_of(value: Any, depth: int = 0) -> int:
    """Bytes of an answer, roughly: buffers exactly, small objects by their shallow size, of very
    many parts some.
    """
    num_bytes = getattr(value, "nbytes", None)
    if isinstance(num_bytes, int):  # numpy arrays, Arrow tables, memory views
        return num_bytes
    size = sys.getsizeof(value)
    if depth >= _MOST_DEPTH or isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, Mapping):
        return size + _size_of_parts(value.values(), depth)
    if isinstance(value, list | tuple | set | frozenset):
        return size + _size_of_parts(value, depth)
    if is_dataclass(value):
        return size + sum(size_of(getattr(value, f.name), depth + 1) for f in fields(value))
    return size


def _size_of_parts(parts: Collection[Any], depth: int) -> int:
    """Of more than _MOST_PARTS every so many: rows of thousands of ranks are alike."""
    every = max(1, len(parts) // _MOST_PARTS)
    sizes = [size_of(part, depth + 1) for part in islice(parts, 0, None, every)]
    return round(sum(sizes) * len(parts) / len(sizes)) if sizes else 0

"""Answers made of runs, kept while they are true: computed once at a time, least used ones dropped.

An answer that was interrupted is not kept, and who waited for it computes it himself: one browser
that leaves takes nothing from another.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from ingest.stopping import Interrupted, Stop

MOST_BYTES = 256 << 20
"""What all kept answers may have together."""
_MOST_ANSWERS = 4096
_LOOK_EVERY_S = 0.05
_DEEPEST = 4

asked_by: ContextVar[Stop | None] = ContextVar("asked_by", default=None)
"""What says that whoever asked has left; set by app.web.answers for each request."""


@dataclass(frozen=True)
class _Answer:
    version: int
    value: Any
    num_bytes: int


@dataclass
class _Flight:
    """One key being computed, and how many want it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class Answers:
    """A cache with a budget in bytes; safe from many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.num_bytes = 0
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._flights: dict[Hashable, _Flight] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, version: Callable[[], int], compute: Callable[[], Any]) -> Any:
        """A kept answer as new as the version at this moment, else `compute()`; raises Interrupted
        for who has left.

        The version is taken before computing: an answer may be newer than it says, never older.
        Who waited for his turn takes what was computed meanwhile, even where the version has gone
        up again: on a live run everybody who waits would otherwise compute once more.
        """
        asked = version()
        found = self._found(key, asked)
        if found is not None:
            return found.value
        with self._flight(key):
            found = self._found(key, asked)
            if found is None:
                now = version()
                value = compute()
                found = _Answer(now, value, size_of(key) + size_of(value))
                self._keep(key, found)
            return found.value

    def kept(self, key: Hashable, version: int) -> Any:
        """The answer of this version where it is kept, else None; computes nothing."""
        found = self._found(key, version)
        return None if found is None else found.value

    def newest(self, key: Hashable) -> tuple[int, Any] | None:
        """Version and value of what is kept, however old it is."""
        found = self._found(key, -1)
        return None if found is None else (found.version, found.value)

    def drop(self, key: Hashable) -> None:
        """Forget one answer."""
        with self._lock:
            old = self._kept.pop(key, None)
            self.num_bytes -= old.num_bytes if old else 0

    def forget(self, wanted: Callable[[Hashable], bool], before: int | None = None) -> None:
        """Drop the answers whose key `wanted` accepts (with `before`: those of older versions)."""
        with self._lock:
            old = [k for k, a in self._kept.items() if before is None or a.version < before]
            for key in filter(wanted, old):
                self.num_bytes -= self._kept.pop(key).num_bytes

    def __len__(self) -> int:
        return len(self._kept)

    def _found(self, key: Hashable, least_version: int) -> _Answer | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.version < least_version:
                return None
            self._kept.move_to_end(key)
            return found

    def _keep(self, key: Hashable, answer: _Answer) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self.num_bytes -= old.num_bytes if old else 0
            if answer.num_bytes > self._most_bytes:
                return  # all others would have to go, and it with them
            self.num_bytes += answer.num_bytes
            self._kept[key] = answer
            while self.num_bytes > self._most_bytes or len(self._kept) > _MOST_ANSWERS:
                self.num_bytes -= self._kept.popitem(last=False)[1].num_bytes

    @contextmanager
    def _flight(self, key: Hashable) -> Iterator[None]:
        with self._lock:
            flight = self._flights.setdefault(key, _Flight())
            flight.wanted += 1
        try:
            _acquire(flight.lock)
            try:
                yield
            finally:
                flight.lock.release()
        finally:
            with self._lock:
                flight.wanted -= 1
                if not flight.wanted:
                    del self._flights[key]


def _acquire(lock: threading.Lock) -> None:
    """Wait for the lock, no longer than somebody waits for us."""
    stop = asked_by.get()
    while not lock.acquire(timeout=_LOOK_EVERY_S if stop else -1):
        if stop and stop.called:
            raise Interrupted("the question was given up before its turn came")


def size_of(value: Any, depth: int = 0) -> int:
    """Bytes of an answer, roughly: buffers exactly, small objects by their shallow size."""
    num_bytes = getattr(value, "nbytes", None)
    if isinstance(num_bytes, int):  # numpy arrays, Arrow tables, memory views
        return num_bytes
    size = sys.getsizeof(value)
    if depth >= _DEEPEST or isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, Mapping):
        return size + sum(size_of(one, depth + 1) for one in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return size + sum(size_of(one, depth + 1) for one in value)
    if is_dataclass(value):
        return size + sum(size_of(getattr(value, one.name), depth + 1) for one in fields(value))
    return size

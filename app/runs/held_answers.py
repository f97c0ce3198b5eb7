"""Answers about a live run that stay for some seconds, whatever the news.

`Hub.cached` makes an answer anew with every piece of news, which come each second or so. That is
too often for what takes long, and would let the parts of one page tell of different moments. What
took long to make stays so much longer (`pace.REST`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast
from weakref import ReferenceType, ref

from app.runs.cache import Answers
from app.runs.hub import Hub
from app.runs.refresh_policy import REST
from ingest.run import Run

T = TypeVar("T")

MOST_BYTES = 128 << 20


@dataclass(frozen=True)
class Made(Generic[T]):
    """An answer, the version of the run it was made of, when (monotonic s), how long it took."""

    value: T
    version: int
    made_s: float
    took_s: float
    run: ReferenceType[Run]


class Steady:
    """Answers that are made anew only when there is news and they are `seconds` old, or REST times
    as old as it took to make them.
    """

    def __init__(self, hub: Hub, seconds: float) -> None:
        self._hub = hub
        self._seconds = seconds
        self._answers = Answers(MOST_BYTES)

    def get(self, name: str, key: Hashable, compute: Callable[[Run], T]) -> Made[T]:
        """`compute(run)`, once at a time; raises UserError for a run there is not."""
        run, at = self._hub.run(name), (name, key)
        kept = self._answers.kept(at, 0)
        if kept is not None and kept.run() is not run:  # another run came by that name
            self._answers.drop(at)

        def least_version() -> int:
            found = self._answers.kept(at, 0)
            return 0 if found is not None and self._is_fresh(found) else self._hub.version(name)

        def make() -> Made[T]:
            version, begun_s = self._hub.version(name), time.monotonic()
            value = compute(run)
            made_s = time.monotonic()
            return Made(value, version, made_s, made_s - begun_s, ref(run))

        return cast("Made[T]", self._answers.get(at, least_version, make))

    def _is_fresh(self, made: Made[object]) -> bool:
        stays_s = max(self._seconds, REST * made.took_s)
        return time.monotonic() - made.made_s < stays_s

    def is_outdated(self, name: str, made: Made[T]) -> bool:
        """Whether the run had news since then."""
        return self._hub.version(name) > made.version

"""Threads that slow work takes in turn, so that a dashboard of many people stays quick for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from ingest.errors import UserError
from ingest.sandbox import Interrupted, Stop

T = TypeVar("T")
AT_ONCE = 4
"""Queries, CSV files and shared files that are worked on at once."""
MOST_WAITING = 16
"""As many more wait for their turn; whoever comes then is told so."""
RETRY_S = 10
_LOOK_EVERY_S = 0.1


class Busy(UserError):
    """Too many wait already."""


class Turns:
    """A few threads apart from those of all other requests. For one event loop."""

    def __init__(self, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._num_free = at_once
        self._most_waiting = most_waiting
        self._num_waiting = 0

    async def run(self, work: Callable[[], T], stop: Stop, is_new: bool = True) -> T:
        """`work()` in a thread, when its turn comes; raises Busy, Interrupted where `stop` was
        called before. `is_new` False: the next part of what had its turn, never refused.
        """
        num_ahead = self._num_waiting - self._num_free
        if is_new and num_ahead >= self._most_waiting:
            raise Busy(
                f"{num_ahead} questions of others wait for an answer already; ask again in a moment"
            )
        await self._turn(stop)
        self._num_free -= 1
        working = asyncio.ensure_future(run_sync(work, limiter=CapacityLimiter(1)))
        working.add_done_callback(self._give_back)  # a thread goes on where its request was cut
        return await asyncio.shield(working)

    async def _turn(self, stop: Stop) -> None:
        """Wait for a place, no longer than somebody waits for the answer."""
        place = asyncio.ensure_future(self._places.acquire())
        self._num_waiting += 1
        try:
            while not (await asyncio.wait({place}, timeout=_LOOK_EVERY_S))[0]:
                if stop.called:
                    raise Interrupted("the question was given up before its turn came")
            place.result()
        except BaseException:
            if not place.cancel():  # it came just now
                self._places.release()
            raise
        finally:
            self._num_waiting -= 1

    def _give_back(self, working: asyncio.Future[T]) -> None:
        self._num_free += 1
        self._places.release()
        if not working.cancelled():
            working.exception()  # seen, also where the request was cut

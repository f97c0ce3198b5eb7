"""Places for slow work, so that a dashboard of many people stays quick for all.

Each kind of work has places of its own, and one session has never all of them: whoever fills them
keeps out neither other kinds of work nor everybody else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from ingest.errors import UserError
from ingest.stopping import Interrupted, Stop

T = TypeVar("T")
AT_ONCE = 4
"""Pieces of one kind of work that are worked on at once."""
OF_ONE_SESSION = 3
"""Also of the files that are sent, which keep what computes them until their browser has all."""
MOST_WAITING = 16
"""As many more wait for a place, at most half of one session; who comes then gets a sentence."""
MOST_SESSIONS_WAITING = 100
"""A session that has nothing under way may wait until so many do."""
RETRY_S = 10
_LOOK_EVERY_S = 0.1


class Busy(UserError):
    """Too many wait already."""


class Turns:
    """The places of one kind of work, on threads apart from other requests'. For one event loop."""

    def __init__(self, kind: str = "work") -> None:
        """`kind` is what /healthz calls it."""
        self.kind = kind
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._sent: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether somebody waits for a place, or no further file would be sent."""
        return bool(self._waiting) or self._sent.total() >= AT_ONCE

    def begin_file(self, session: str) -> None:
        """A file begins, which `end_file` has to end; raises Busy where too many are sent."""
        if self._sent[session] >= OF_ONE_SESSION or self._sent.total() >= AT_ONCE:
            raise Busy("as many files as the server can compute at once are being sent; ask again")
        self._sent[session] += 1

    def end_file(self, session: str) -> None:
        """It was sent, or its browser has left."""
        self._sent[session] -= 1
        self._sent = +self._sent

    async def run(
        self, work: Callable[[], T], stop: Stop, session: str = "", is_new: bool = True
    ) -> T:
        """`work()` in a thread, when its turn comes; raises Busy, Interrupted where `stop` was
        called before. `is_new` False: the next part of what had its turn, never refused.
        """
        if is_new and not self._may_wait(session):
            raise Busy(
                f"{len(self._waiting)} questions wait for an answer already; ask again in a moment"
            )
        await self._turn(stop, session)
        working = asyncio.ensure_future(run_sync(work, limiter=CapacityLimiter(1)))
        # a thread goes on where its request was cut
        working.add_done_callback(lambda done: self._give_back(session, done))
        return await asyncio.shield(working)

    def _may_wait(self, session: str) -> bool:
        num_waiting = len(self._waiting)
        num_own = sum(waiting == session for waiting, _ in self._waiting)
        if not num_own and not self._running[session]:
            return num_waiting < MOST_SESSIONS_WAITING
        return num_waiting < MOST_WAITING and num_own < MOST_WAITING // 2

    async def _turn(self, stop: Stop, session: str) -> None:
        """Wait for a place, no longer than somebody waits for the answer."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((session, place))
        self._hand_out()
        try:
            while not (await asyncio.wait({place}, timeout=_LOOK_EVERY_S))[0]:
                if stop.called:
                    raise Interrupted("the question was given up before its turn came")
        except BaseException:
            if place.done():  # it came just now
                self._running[session] -= 1
                self._hand_out()
            else:
                self._waiting.remove((session, place))
            raise

    def _hand_out(self) -> None:
        """Give free places to those whose session has fewest, of those who have waited longest."""
        while self._waiting and self._running.total() < AT_ONCE:
            following = min(self._waiting, key=lambda waiting: self._running[waiting[0]])
            session, place = following
            if self._running[session] >= OF_ONE_SESSION:
                return
            self._running[session] += 1
            self._waiting.remove(following)
            place.set_result(None)

    def _give_back(self, session: str, working: asyncio.Future[T]) -> None:
        self._running[session] -= 1
        self._running = +self._running
        self._hand_out()
        if not working.cancelled():
            working.exception()  # seen, also where the request was cut

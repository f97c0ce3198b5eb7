"""Places for slow work, so that a dashboard of many people stays quick for all.

Each kind of work has places of its own. They are shared out among accounts, and those of an account
among its sessions. Anybody who has a token can open any number of sessions with it, so all of them
are one account, which never has all places nor fills the queue. A team may share one token, so none
of its sessions keeps the others out: no session has all the files of its account, and a free place
goes to the account, then to the session, that has fewest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.types import Scope

from app.web.caller import SESSION, TOKEN
from ingest.errors import UserError
from ingest.stopping import Interrupted, Stop

T = TypeVar("T")
AT_ONCE = 4
"""Pieces of one kind of work that are worked on at once."""
OF_ONE_ACCOUNT = 3
"""Also of the files that are sent, which keep what computes them until their browser has all."""
FILES_OF_ONE_SESSION = 2
MOST_WAITING = 16
"""This many more wait for a place, at most half of them of one session; whoever comes then gets a
sentence. Of one account half of them count against the others."""
MOST_SESSIONS_WAITING = 100
"""A session that has nothing under way may wait until this many do, or half of them with its
token."""
RETRY_S = 10
_LOOK_EVERY_S = 0.1


class Busy(UserError):
    """Too many wait already."""


class Owner(NamedTuple):
    """Whom work counts for: a session and its token's digest, '' where the server has no tokens."""

    session: str = ""
    token: str = ""

    @property
    def account(self) -> str:
        """What all sessions of one token have in common; without tokens each is one."""
        return self.token or self.session


NOBODY = Owner()


def owner_of(scope: Scope) -> Owner:
    """Whom a request counts for."""
    return Owner(scope.get(SESSION, ""), scope.get(TOKEN, ""))


class _Counts:
    """How much of something each session and each account has."""

    def __init__(self) -> None:
        self.of_session: Counter[str] = Counter()
        self.of_account: Counter[str] = Counter()

    def add(self, owner: Owner, number: int) -> None:
        """Count it; nothing is kept of those that have nothing."""
        for counts, key in ((self.of_session, owner.session), (self.of_account, owner.account)):
            counts[key] += number
            if not counts[key]:
                del counts[key]

    def total(self) -> int:
        """Of all together."""
        return self.of_account.total()


class Turns:
    """The places of one kind of work, on threads apart from other requests'. For one event loop."""

    def __init__(self, kind: str = "work") -> None:
        """`kind` is what /healthz calls it."""
        self.kind = kind
        self._running = _Counts()
        self._waiting: list[tuple[Owner, asyncio.Future[None]]] = []
        self._sent = _Counts()

    @property
    def is_full(self) -> bool:
        """Whether somebody waits for a place, or no further file would be sent."""
        return bool(self._waiting) or self._sent.total() >= AT_ONCE

    def begin_file(self, owner: Owner) -> None:
        """A file begins, which `end_file` has to end; raises Busy where too many are sent."""
        if self._sent.total() >= AT_ONCE:
            raise Busy("as many files as the server can compute at once are being sent; ask again")
        if self._sent.of_session[owner.session] >= FILES_OF_ONE_SESSION:
            raise Busy(f"you are being sent {FILES_OF_ONE_SESSION} files; ask again after one")
        if self._sent.of_account[owner.account] >= OF_ONE_ACCOUNT:
            raise Busy(f"{OF_ONE_ACCOUNT} files are being sent to holders of your token; ask again")
        self._sent.add(owner, 1)

    def end_file(self, owner: Owner) -> None:
        """It was sent, or its browser has left."""
        self._sent.add(owner, -1)

    async def run(
        self, work: Callable[[], T], stop: Stop, owner: Owner = NOBODY, is_new: bool = True
    ) -> T:
        """`work()` in a thread, when its turn comes; raises Busy, Interrupted where `stop` was
        called before. `is_new` False: the next part of what had its turn, never refused.
        """
        if is_new and not self._may_wait(owner):
            raise Busy(
                f"{len(self._waiting)} questions wait for an answer already; ask again in a moment"
            )
        await self._turn(stop, owner)
        working = asyncio.ensure_future(run_sync(work, limiter=CapacityLimiter(1)))
        # a thread goes on where its request was cut
        working.add_done_callback(lambda done: self._give_back(owner, done))
        return await asyncio.shield(working)

    def _may_wait(self, owner: Owner) -> bool:
        of_account = Counter(waiting.account for waiting, _ in self._waiting)
        num_own = sum(waiting.session == owner.session for waiting, _ in self._waiting)
        num_of_account = of_account[owner.account]
        if not num_own and not self._running.of_session[owner.session]:
            is_room = len(self._waiting) < MOST_SESSIONS_WAITING
            return is_room and num_of_account < MOST_SESSIONS_WAITING // 2
        half = MOST_WAITING // 2
        num_counted = sum(min(number, half) for number in of_account.values())
        return num_counted < MOST_WAITING and num_of_account < MOST_WAITING and num_own < half

    async def _turn(self, stop: Stop, owner: Owner) -> None:
        """Wait for a place, no longer than somebody waits for the answer."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, place))
        self._hand_out()
        try:
            while not (await asyncio.wait({place}, timeout=_LOOK_EVERY_S))[0]:
                if stop.called:
                    raise Interrupted("the question was given up before its turn came")
        except BaseException:
            if place.done():  # it came just now
                self._running.add(owner, -1)
                self._hand_out()
            else:
                self._waiting.remove((owner, place))
            raise

    def _hand_out(self) -> None:
        """Give free places to those whose account, then session, has fewest; of those to the one
        that has waited longest.
        """
        while self._waiting and self._running.total() < AT_ONCE:
            following = min(self._waiting, key=lambda waiting: self._num_running(waiting[0]))
            owner, place = following
            if self._running.of_account[owner.account] >= OF_ONE_ACCOUNT:
                return
            self._running.add(owner, 1)
            self._waiting.remove(following)
            place.set_result(None)

    def _num_running(self, owner: Owner) -> tuple[int, int]:
        of_account, of_session = self._running.of_account, self._running.of_session
        return of_account[owner.account], of_session[owner.session]

    def _give_back(self, owner: Owner, working: asyncio.Future[T]) -> None:
        self._running.add(owner, -1)
        self._hand_out()
        if not working.cancelled():
            working.exception()  # seen, also where the request was cut

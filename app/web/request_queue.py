"""Queues for slow work, so that a dashboard with many users stays fast for all of them.

Each kind of work has a queue with its own slots. Accounts share the slots, and the sessions of an
account share its slots. A token opens any number of sessions, so all sessions of one token form one
account, which never gets all slots nor fills the queue. A team may share one token, so no session
locks out the others: no session gets all the files of its account, and a free slot goes to the
account, then to the session, with the fewest running requests.
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
"""Requests of one kind that run at once, and files of one kind that are sent at once."""
OF_ONE_ACCOUNT = 3
"""Slots that one account may use; the same limit holds for its files, whose computation stays open
until the browser has received everything."""
FILES_OF_ONE_SESSION = 2
MOST_WAITING = 16
"""At most this many requests wait for a slot, at most half of them from one session; the server
refuses further ones. Of one account at most half of this number counts against the others."""
MOST_SESSIONS_WAITING = 100
"""A session with no running request may wait unless this many requests wait, or half as many of its
own account."""
RETRY_S = 10
_LOOK_EVERY_S = 0.1


class Busy(UserError):
    """Too many requests wait already."""


class Owner(NamedTuple):
    """The session that work counts for and its token's digest, '' on a server without tokens."""

    session: str = ""
    token: str = ""

    @property
    def account(self) -> str:
        """Shared by all sessions of one token; without tokens each session is an account."""
        return self.token or self.session


NOBODY = Owner()


def owner_of(scope: Scope) -> Owner:
    """The session and token that a request counts for."""
    return Owner(scope.get(SESSION, ""), scope.get(TOKEN, ""))


class _Counts:
    """How much each session and each account has."""

    def __init__(self) -> None:
        self.of_session: Counter[str] = Counter()
        self.of_account: Counter[str] = Counter()

    def add(self, owner: Owner, number: int) -> None:
        """Add to both counts and delete those that reach zero."""
        for counts, key in ((self.of_session, owner.session), (self.of_account, owner.account)):
            counts[key] += number
            if not counts[key]:
                del counts[key]

    def total(self) -> int:
        """The sum over all accounts."""
        return self.of_account.total()


class RequestQueue:
    """The queue of one kind of work, on threads of its own. For one event loop."""

    def __init__(self, kind: str = "work") -> None:
        """`kind`: its name in /healthz."""
        self.kind = kind
        self._running = _Counts()
        self._waiting: list[tuple[Owner, asyncio.Future[None]]] = []
        self._sent = _Counts()

    @property
    def is_full(self) -> bool:
        """Whether a request waits for a slot, or no further file could be sent."""
        return bool(self._waiting) or self._sent.total() >= AT_ONCE

    def begin_file(self, owner: Owner) -> None:
        """Count a file until `end_file`; raises Busy if too many are being sent."""
        if self._sent.total() >= AT_ONCE:
            raise Busy("the server is sending as many files as it can compute at once; try again")
        if self._sent.of_session[owner.session] >= FILES_OF_ONE_SESSION:
            raise Busy(f"{FILES_OF_ONE_SESSION} files are being sent to you; try again after one")
        if self._sent.of_account[owner.account] >= OF_ONE_ACCOUNT:
            raise Busy(f"{OF_ONE_ACCOUNT} files are being sent to holders of your token; try again")
        self._sent.add(owner, 1)

    def end_file(self, owner: Owner) -> None:
        """Stop counting a file that was sent or whose browser has disconnected."""
        self._sent.add(owner, -1)

    async def run(
        self, work: Callable[[], T], stop: Stop, owner: Owner = NOBODY, is_new: bool = True
    ) -> T:
        """Run `work()` in a thread when its turn comes; raises Busy, or Interrupted if `stop` was
        called before. `is_new` False: the next part of work that has had its turn; never refused.
        """
        if is_new and not self._may_wait(owner):
            raise Busy(
                f"{len(self._waiting)} requests are waiting for an answer; try again in a moment"
            )
        await self._wait_for_slot(stop, owner)
        working = asyncio.ensure_future(run_sync(work, limiter=CapacityLimiter(1)))
        # a thread runs on after its request was cancelled
        working.add_done_callback(lambda done: self._release_slot(owner, done))
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

    async def _wait_for_slot(self, stop: Stop, owner: Owner) -> None:
        """Wait for a slot, until `stop` is called at most."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, slot))
        self._assign_slots()
        try:
            while not (await asyncio.wait({slot}, timeout=_LOOK_EVERY_S))[0]:
                if stop.called:
                    raise Interrupted("the request was cancelled before its turn came")
        except BaseException:
            if slot.done():  # assigned at this very moment
                self._running.add(owner, -1)
                self._assign_slots()
            else:
                self._waiting.remove((owner, slot))
            raise

    def _assign_slots(self) -> None:
        """Give free slots to the account, then session, with the fewest running requests; among
        equals, to the request that has waited longest.
        """
        while self._waiting and self._running.total() < AT_ONCE:
            following = min(self._waiting, key=lambda waiting: self._num_running(waiting[0]))
            owner, slot = following
            if self._running.of_account[owner.account] >= OF_ONE_ACCOUNT:
                return
            self._running.add(owner, 1)
            self._waiting.remove(following)
            slot.set_result(None)

    def _num_running(self, owner: Owner) -> tuple[int, int]:
        of_account, of_session = self._running.of_account, self._running.of_session
        return of_account[owner.account], of_session[owner.session]

    def _release_slot(self, owner: Owner, working: asyncio.Future[T]) -> None:
        self._running.add(owner, -1)
        self._assign_slots()
        if not working.cancelled():
            working.exception()  # retrieved even if the request was cancelled

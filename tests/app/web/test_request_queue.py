"""Slots for slow work: by kind, fair between sessions, released whatever happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from app.web.request_queue import (
    AT_ONCE,
    FILES_OF_ONE_SESSION,
    MOST_SESSIONS_WAITING,
    MOST_WAITING,
    OF_ONE_ACCOUNT,
    Busy,
    Owner,
    RequestQueue,
)
from ingest.stopping import Interrupted, Stop


class Work:
    """Work that ends when it is released."""

    def __init__(self) -> None:
        self.num_begun = 0
        self._released = threading.Event()
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            self.num_begun += 1
        assert self._released.wait(20)
        return 1

    def release(self) -> None:
        self._released.set()


def on_a_loop(steps: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(steps(), 20)

    asyncio.run(limited())


def test_one_session_leaves_a_slot_to_others() -> None:
    queue, work = RequestQueue("SQL"), Work()

    async def steps() -> None:
        greedy = [asyncio.create_task(queue.run(work, Stop(), Owner("a"))) for _ in range(8)]
        await asyncio.sleep(0.1)
        assert work.num_begun == OF_ONE_ACCOUNT < AT_ONCE
        assert queue.is_full
        assert await queue.run(lambda: 2, Stop(), Owner("b")) == 2
        work.release()
        assert await asyncio.gather(*greedy) == [1] * 8
        assert not queue.is_full

    on_a_loop(steps)


def test_a_request_is_refused_with_a_sentence_when_too_many_wait() -> None:
    queue, work = RequestQueue("SQL"), Work()

    async def steps() -> None:
        waiting = []
        for owner in map(Owner, "abcd"):
            waiting += [asyncio.create_task(queue.run(work, Stop(), owner)) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert work.num_begun == AT_ONCE
        with pytest.raises(Busy, match=f"{MOST_WAITING} requests are waiting"):
            await queue.run(work, Stop(), Owner("a"))
        newcomer = asyncio.create_task(queue.run(lambda: 2, Stop(), Owner("e")))
        await asyncio.sleep(0.1)
        work.release()
        assert await newcomer == 2
        assert len(await asyncio.gather(*waiting)) == 20

    on_a_loop(steps)


def test_the_session_with_the_fewest_slots_is_next() -> None:
    queue, works, order = RequestQueue("SQL"), [Work() for _ in range(AT_ONCE)], []

    async def steps() -> None:
        running = [
            asyncio.create_task(queue.run(work, Stop(), Owner(session)))
            for work, session in zip(works, "aabb", strict=True)
        ]
        await asyncio.sleep(0.1)
        later = [
            asyncio.create_task(queue.run(partial(order.append, name), Stop(), Owner(name)))
            for name in "aabc"
        ]
        await asyncio.sleep(0.1)
        works[0].release()
        await later[-1]
        assert order[0] == "c"
        for work in works:
            work.release()
        await asyncio.gather(*running, *later)

    on_a_loop(steps)


def test_a_cancelled_request_releases_its_slot() -> None:
    queue, work = RequestQueue("SQL"), Work()

    async def steps() -> None:
        running = [asyncio.create_task(queue.run(work, Stop(), Owner(s))) for s in "abcd"]
        await asyncio.sleep(0.1)
        stop = Stop()
        stopped = asyncio.create_task(queue.run(work, stop, Owner("e")))
        cut = asyncio.create_task(queue.run(work, Stop(), Owner("f")))
        await asyncio.sleep(0.1)
        stop()
        cut.cancel()
        with pytest.raises(Interrupted):
            await stopped
        with pytest.raises(asyncio.CancelledError):
            await cut
        assert not queue.is_full
        running[0].cancel()  # its thread runs on and keeps its slot until it ends
        work.release()
        await asyncio.gather(*running, return_exceptions=True)
        results = [queue.run(lambda: 3, Stop(), Owner(s)) for s in "abcdefgh"]
        assert await asyncio.gather(*results) == [3] * 8

    on_a_loop(steps)


def test_sessions_of_one_token_leave_a_slot_to_other_tokens() -> None:
    queue, work = RequestQueue("SQL"), Work()

    async def steps() -> None:
        greedy = [
            asyncio.create_task(queue.run(work, Stop(), Owner(f"v{number}", "viewers")))
            for number in range(8)
        ]
        await asyncio.sleep(0.1)
        assert work.num_begun == OF_ONE_ACCOUNT
        assert await queue.run(lambda: 2, Stop(), Owner("w", "others")) == 2
        work.release()
        await asyncio.gather(*greedy)

    on_a_loop(steps)


def test_the_session_of_a_token_with_the_fewest_slots_is_next() -> None:
    queue, works, order = RequestQueue("SQL"), [Work() for _ in range(OF_ONE_ACCOUNT)], []

    async def steps() -> None:
        running = [
            asyncio.create_task(queue.run(work, Stop(), Owner(session, "viewers")))
            for work, session in zip(works, "aab", strict=True)
        ]
        await asyncio.sleep(0.1)
        later = [
            asyncio.create_task(queue.run(partial(order.append, owner.session), Stop(), owner))
            for owner in (Owner("a", "viewers"), Owner("c", "viewers"))
        ]
        await asyncio.sleep(0.1)
        works[-1].release()
        await asyncio.gather(*later)
        for work in works:
            work.release()
        await asyncio.gather(*running)

    on_a_loop(steps)
    assert order == ["c", "a"]


def test_sessions_of_one_token_fill_half_of_the_queue_at_most() -> None:
    queue, work = RequestQueue("SQL"), Work()

    async def steps() -> None:
        crowd = [
            asyncio.create_task(queue.run(work, Stop(), Owner(f"v{number}", "viewers")))
            for number in range(2 * MOST_SESSIONS_WAITING)
        ]
        await asyncio.sleep(0.1)
        refused = [task for task in crowd if task.done()]
        assert len(crowd) - len(refused) == OF_ONE_ACCOUNT + MOST_SESSIONS_WAITING // 2
        assert all(isinstance(task.exception(), Busy) for task in refused)
        mine = [
            asyncio.create_task(queue.run(work, Stop(), Owner("w", "others"))) for _ in range(8)
        ]
        await asyncio.sleep(0.1)
        assert work.num_begun == AT_ONCE
        assert not any(task.done() for task in mine)
        work.release()
        assert await asyncio.gather(*mine) == [1] * 8
        await asyncio.gather(*crowd, return_exceptions=True)

    on_a_loop(steps)


def test_files_have_slots_by_session_and_by_token() -> None:
    queue, first, second = RequestQueue("SQL"), Owner("v1", "viewers"), Owner("v2", "viewers")
    for _ in range(FILES_OF_ONE_SESSION):
        queue.begin_file(first)
    with pytest.raises(Busy):
        queue.begin_file(first)
    queue.begin_file(second)  # a colleague with the same token
    assert FILES_OF_ONE_SESSION + 1 == OF_ONE_ACCOUNT == AT_ONCE - 1
    for number in range(3, 9):
        with pytest.raises(Busy):
            queue.begin_file(Owner(f"v{number}", "viewers"))
    queue.begin_file(Owner("w", "others"))
    with pytest.raises(Busy):
        queue.begin_file(Owner("x", "third"))
    queue.end_file(first)
    queue.begin_file(Owner("x", "third"))

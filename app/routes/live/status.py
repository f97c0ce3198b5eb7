"""The live socket: notifies a browser at once of new data, and each second how old the data is.

`{base}/api/live?run=NAME` sends app.analysis.live_status.LiveStatus as JSON; without a run it sends
{version} whenever a run is added, removed or changed. The server builds each message when it sends
it: a slow browser gets only the newest state, and nothing queues up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.analysis.live_status import live_status
from app.routes.context import RouteContext
from app.runs.hub import Hub, Indexing
from app.web.metrics import METRICS
from ingest.errors import UserError

HEARTBEAT_S = 1.0
SHORTEST_S = 0.05
"""Pause between two messages, so that a run that changes all the time does not flood the
browser."""
AWAITED_S = 1.5
"""A socket waits this long for a first index: less than the page. So a page that found no index
gets the same answer here, and checks again later.
"""
SPREAD_S = 0.04
MOST_SPREAD_S = 0.8
"""The server notifies one socket after the other with the first pause between them, all within the
second: each notified page requests its data, and the last page would wait for all the others.
"""
NUM_THREADS = 4
SEND_LIMIT_S = 20.0
"""The server closes the socket of a browser that reads nothing for this long."""
UNKNOWN = 4404
"""Close code: there is no such run (yet); the reason explains it."""
_LONGEST_REASON = 120
_LEFT = (WebSocketDisconnect, asyncio.TimeoutError)


def routes(context: RouteContext) -> list[WebSocketRoute]:
    """The live socket of the runs of `hub`."""
    hub = context.hub

    # own threads: sockets keep working while all other threads wait for queries
    limiter: CapacityLimiter | None = None
    numbers: set[int] = set()

    async def live(websocket: WebSocket) -> None:
        nonlocal limiter
        limiter = limiter or CapacityLimiter(NUM_THREADS)
        await websocket.accept()
        with METRICS.open_socket(), _free_number(numbers) as number:
            name = websocket.query_params.get("run")
            await _serve(hub, websocket, name, limiter, min(number * SPREAD_S, MOST_SPREAD_S))

    return [WebSocketRoute("/api/live", live)]


@contextmanager
def _free_number(taken: set[int]) -> Iterator[int]:
    """The first number that no other socket has, while the block runs."""
    number = next(number for number in count() if number not in taken)
    taken.add(number)
    try:
        yield number
    finally:
        taken.discard(number)


async def _serve(
    hub: Hub, websocket: WebSocket, name: str | None, limiter: CapacityLimiter, pause_s: float
) -> None:
    """Serve one socket; it is notified `pause_s` after new data arrives."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    num_changes = 0  # of all runs

    def on_change(run: str, _version: int) -> None:
        nonlocal num_changes
        if name is None or run == name:
            num_changes += 1
            with suppress(RuntimeError):  # the loop is closing
                loop.call_soon_threadsafe(news.set)

    def message() -> dict[str, object]:
        if name is None:
            return {"run": None, "version": num_changes}
        status = live_status(hub, name)
        hub.look(name, status.state)
        return status.as_json()

    async def made() -> dict[str, object]:
        until_s = loop.time() + AWAITED_S
        while True:
            try:
                return await run_sync(message, limiter=limiter)
            except Indexing:
                if loop.time() > until_s:
                    raise
            await asyncio.sleep(AWAITED_S / 10)

    sender = asyncio.create_task(_send(websocket, made, news, pause_s))
    receiver = asyncio.create_task(_wait_for_end(websocket))
    end = hub.listen(on_change)
    try:
        done, _ = await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if isinstance(error, UserError):
                reason = str(error).encode()[:_LONGEST_REASON].decode(errors="ignore")
                await websocket.close(UNKNOWN, reason)
            elif error is not None and not isinstance(error, _LEFT) and receiver not in done:
                raise error
    finally:
        end()
        sender.cancel()
        receiver.cancel()
        # asyncio would log a send that fails while it is cancelled as an unretrieved error
        await asyncio.gather(sender, receiver, return_exceptions=True)


async def _send(
    websocket: WebSocket,
    message: Callable[[], Awaitable[dict[str, object]]],
    news: asyncio.Event,
    pause_s: float,
) -> None:
    while True:
        news.clear()
        content = await message()
        await asyncio.wait_for(websocket.send_json(content), SEND_LIMIT_S)
        await asyncio.sleep(SHORTEST_S)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(news.wait(), HEARTBEAT_S - SHORTEST_S)
            await asyncio.sleep(pause_s)


async def _wait_for_end(websocket: WebSocket) -> None:
    """Read and ignore the browser's messages until it disconnects."""
    while True:
        if (await websocket.receive())["type"] == "websocket.disconnect":
            return

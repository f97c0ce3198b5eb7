"""The live socket: sends a browser each piece of news at once, and each second how old the data is.

`{base}/api/live?run=NAME` sends app.analysis.live_status.LiveStatus as JSON; without a run it sends
{version} whenever a run has come, gone or changed. A message is made when it is sent: a slow
browser gets the newest state only, and nothing queues up.
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
"""Pause between two messages, so that a run that changes all the time does not flood."""
AWAITED_S = 1.5
"""How long a socket waits for a first index: less than the page, so that a page that has nothing
yet gets the same answer here, and looks again when there is something.
"""
SPREAD_S = 0.04
MOST_SPREAD_S = 0.8
"""News are sent to one socket after the other, this far apart and all within the latter: every page
asks for what it shows when it gets them, and the last would wait for all the others.
"""
NUM_THREADS = 4
SEND_LIMIT_S = 20.0
"""A browser that takes nothing for this long is disconnected."""
UNKNOWN = 4404
"""Close code: there is no such run (yet); the reason says why."""
_LONGEST_REASON = 120
_LEFT = (WebSocketDisconnect, asyncio.TimeoutError)


def routes(context: RouteContext) -> list[WebSocketRoute]:
    """The live socket of the runs of `hub`."""
    hub = context.hub

    # own threads: sockets go on while all the others wait for queries
    limiter: CapacityLimiter | None = None
    places: set[int] = set()

    async def live(websocket: WebSocket) -> None:
        nonlocal limiter
        limiter = limiter or CapacityLimiter(NUM_THREADS)
        await websocket.accept()
        with METRICS.open_socket(), _place(places) as place:
            name = websocket.query_params.get("run")
            await _serve(hub, websocket, name, limiter, min(place * SPREAD_S, MOST_SPREAD_S))

    return [WebSocketRoute("/api/live", live)]


@contextmanager
def _place(taken: set[int]) -> Iterator[int]:
    """The first free place in the queue, while the block runs."""
    place = next(number for number in count() if number not in taken)
    taken.add(place)
    try:
        yield place
    finally:
        taken.discard(place)


async def _serve(
    hub: Hub, websocket: WebSocket, name: str | None, limiter: CapacityLimiter, pause_s: float
) -> None:
    """Send news to one socket; its turn comes `pause_s` after there are any."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    num_news = 0  # of all runs

    def heard(run: str, _version: int) -> None:
        nonlocal num_news
        if name is None or run == name:
            num_news += 1
            with suppress(RuntimeError):  # the loop is closing
                loop.call_soon_threadsafe(news.set)

    def message() -> dict[str, object]:
        if name is None:
            return {"run": None, "version": num_news}
        return live_status(hub, name).as_json()

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
    end = hub.listen(heard)
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
        # else asyncio logs a send that fails while it is cancelled as an error nobody handled
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
    """Read and drop what the browser sends, until it leaves."""
    while True:
        if (await websocket.receive())["type"] == "websocket.disconnect":
            return

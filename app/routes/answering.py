"""How a route answers: in a thread, stopped when the browser has left, errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.answers import asked_by
from app.auth import Forbidden
from app.routes.turns import RETRY_S, Busy, Turns
from ingest.errors import UserError
from ingest.sandbox import Interrupted, Stop

T = TypeVar("T")
_LOOK_EVERY_S = 0.1
GONE = 499
"""Status of an answer that nobody waits for any more (as nginx logs it)."""

_under_way: set[Stop] = set()


async def answer(
    request: Request,
    compute: Callable[[Stop], T],
    respond: Callable[[T], Response],
    turns: Turns | None = None,
) -> Response:
    """`respond(compute(stop))`; a UserError becomes {"error": sentence} with status 400.

    compute runs in a thread, with `turns` when its turn comes (503 where too many wait); `stop`
    interrupts its query once the browser has gone.
    """
    stop = Stop()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK_EVERY_S)
        while True:  # again: between two queries of one answer an interrupt is lost
            stop()
            await asyncio.sleep(_LOOK_EVERY_S)

    def computed() -> T:
        asked_by.set(stop)  # this thread works in a copy of the context
        return compute(stop)

    watcher = asyncio.create_task(watch())
    _under_way.add(stop)
    try:
        work = turns.run(computed, stop) if turns else run_in_threadpool(computed)
        return respond(await work)
    except Busy as error:
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": str(RETRY_S)})
    except UserError as error:
        is_gone = isinstance(error, Interrupted) and stop.called
        status = 403 if isinstance(error, Forbidden) else GONE if is_gone else 400
        return JSONResponse({"error": str(error)}, status)
    finally:
        _under_way.discard(stop)
        watcher.cancel()


def stop_all() -> None:
    """Interrupt every query under way: the server stops."""
    for stop in list(_under_way):
        stop()

"""How a route answers: computed in a thread, stopped when the browser has left, errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ingest.errors import UserError
from ingest.sandbox import Stop

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


async def answer(
    request: Request, compute: Callable[[Stop], T], respond: Callable[[T], Response]
) -> Response:
    """`respond(compute(stop))`; a UserError becomes {"error": sentence} with status 400.

    compute runs in a thread; `stop` interrupts its query once the browser has gone.
    """
    stop = Stop()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK_EVERY_S)
        stop()

    watcher = asyncio.create_task(watch())
    try:
        return respond(await run_in_threadpool(compute, stop))
    except UserError as error:
        return JSONResponse({"error": str(error)}, 400)
    finally:
        watcher.cancel()

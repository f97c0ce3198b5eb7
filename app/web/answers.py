"""How a route answers: in a thread, interrupted when the browser leaves, errors as sentences."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.runs.answer_store import request_stop
from app.runs.hub import Hub
from app.runs.policies import PREFETCH
from app.web.caller import Forbidden
from app.web.request_queue import RETRY_S, Busy, RequestQueue, owner_of
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Interrupted, Stop

T = TypeVar("T")
_LOOK_EVERY_S = 0.1
_WORTH_GZIP_BYTES = 500
BUSY = 503
"""Status of an answer when the queue is full."""
GONE = 499
"""Status of an answer whose client has disconnected (as nginx logs it)."""

_under_way: set[Stop] = set()


async def answer(
    request: Request,
    compute: Callable[[Stop], T],
    respond: Callable[[T], Response],
    queue: RequestQueue | None = None,
) -> Response:
    """`respond(compute(stop))`; a UserError becomes {"error": sentence} with status 400.

    `compute` runs in a thread; with `queue`, when its turn comes (503 if too many wait). `stop`
    interrupts its query once the browser has disconnected.
    """
    stop = Stop()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK_EVERY_S)
        while True:  # repeated: an interrupt between two queries of one answer has no effect
            stop()
            await asyncio.sleep(_LOOK_EVERY_S)

    def computed() -> T:
        request_stop.set(stop)  # this thread works in a copy of the context
        return compute(stop)

    watcher = asyncio.create_task(watch())
    _under_way.add(stop)
    try:
        owner = owner_of(request.scope)
        work = queue.run(computed, stop, owner) if queue else run_in_threadpool(computed)
        return respond(await work)
    except Busy as error:
        return busy(error)
    except UserError as error:
        is_gone = isinstance(error, Interrupted) and stop.called
        status = 403 if isinstance(error, Forbidden) else GONE if is_gone else 400
        return JSONResponse({"error": str(error)}, status)
    finally:
        _under_way.discard(stop)
        watcher.cancel()


def busy(error: Busy) -> Response:
    """An answer with the status BUSY."""
    return JSONResponse({"error": str(error)}, BUSY, {"Retry-After": str(RETRY_S)})


async def body_of(request: Request, most_bytes: int, too_long: str) -> bytes:
    """The body of a request; raises UserError with the sentence `too_long` beyond `most_bytes`."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise UserError(too_long)
    return bytes(body)


@dataclass(frozen=True)
class Body:
    """An answer as it is sent; cached in this form, it costs almost nothing to send again."""

    content: bytes
    media_type: str
    is_gzip: bool

    @classmethod
    def of(cls, content: bytes, media_type: str) -> Body:
        """Compress the content if it is long enough."""
        if len(content) < _WORTH_GZIP_BYTES:
            return cls(content, media_type, False)
        return cls(gzip.compress(content, compresslevel=1), media_type, True)

    def response(self, request: Request) -> Response:
        """The response, decompressed for clients that do not accept gzip."""
        headers, content = {"Vary": "Accept-Encoding"}, self.content
        if self.is_gzip and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
        elif self.is_gzip:
            content = gzip.decompress(content)
        return Response(content, media_type=self.media_type, headers=headers)


async def answer_prefetched(
    request: Request,
    hub: Hub,
    route: str,
    compute: Callable[[Run, Stop | None], bytes],
    media_type: str,
) -> Response:
    """As `answer`, for what pages of a live run ask for at each piece of news (PREFETCH).

    Cached per run and query; `compute` must read everything again.
    """
    name, key = request.path_params["run"], (route, request.url.query)
    stored = hub.cache.peek(name, key)
    if isinstance(stored, Body):
        return stored.response(request)

    def packed(run: Run, stop: Stop | None) -> Body:
        return Body.of(compute(run, stop), media_type)

    def cached(stop: Stop) -> Body:
        return hub.cache.get(name, key, packed, PREFETCH, stop)

    return await answer(request, cached, lambda body: body.response(request))


def stop_all() -> None:
    """Interrupt every running query when the server stops."""
    for stop in list(_under_way):
        stop()

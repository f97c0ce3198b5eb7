"""Files of a browser as runs: POST the stream, GET how its import goes, DELETE to cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.auth import require
from app.hub import Hub
from app.settings import Role
from app.uploads import (
    Imports,
    NoRoom,
    Receiver,
    TooBig,
    check_size,
    imports_of,
    limit_bytes,
)
from ingest.errors import UserError

MEDIA_TYPE = "application/x-rankscope-files"
AT_ONCE = 4
_WRITE_BYTES = 1 << 20
_DRAIN_S = 10.0
"""A browser shows a refusal only once its bytes were taken; for so long they are, unread."""


def routes(hub: Hub) -> list[Route]:
    """POST api/uploads, GET and DELETE api/uploads/ID."""
    imports = imports_of(hub)
    places = asyncio.Semaphore(AT_ONCE)

    async def upload(request: Request) -> Response:
        require(request, Role.uploader)
        if request.headers.get("content-type", "").split(";")[0].strip() != MEDIA_TYPE:
            return JSONResponse({"error": f"an upload has the media type {MEDIA_TYPE}"}, 415)
        async with places:
            body = _Body(request)
            try:
                received = await _received(body, imports)
            except ClientDisconnect:
                return Response(status_code=499)
            except UserError as error:
                await body.drain()
                return JSONResponse({"error": str(error)}, _status(error))
        return JSONResponse({"import": imports.start(received).id}, 202)

    async def state(request: Request) -> Response:
        require(request, Role.uploader)
        return JSONResponse(asdict(imports.job(request.path_params["id"])))

    async def cancel(request: Request) -> Response:
        require(request, Role.uploader)
        imports.job(request.path_params["id"]).cancelled = True
        return JSONResponse({})

    return [
        Route("/api/uploads", upload, methods=["POST"]),
        Route("/api/uploads/{id}", state, methods=["GET"]),
        Route("/api/uploads/{id}", cancel, methods=["DELETE"]),
    ]


def _status(error: UserError) -> int:
    if isinstance(error, TooBig):
        return 413
    return 507 if isinstance(error, NoRoom) else 400


class _Body:
    """The bytes of a request as they come, and whether all have."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_at_end = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises ClientDisconnect where the browser has gone."""
        while not self.is_at_end:
            message = await self.request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self.is_at_end = not message.get("more_body", False)
            yield message.get("body", b"")

    async def drain(self) -> None:
        """Take what still comes, unread, for a while."""
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_DRAIN_S):
                async for _ in self.pieces():
                    pass


async def _received(body: _Body, imports: Imports) -> Receiver:
    """The whole body as files; whatever goes wrong, nothing of it stays."""
    limit = limit_bytes()
    length = body.request.headers.get("content-length", "")
    if length.isdecimal():
        check_size(int(length), limit)
    receiver = await run_in_threadpool(imports.receive, limit)
    waiting = bytearray()
    try:
        async for piece in body.pieces():
            waiting += piece
            if len(waiting) >= _WRITE_BYTES:
                await run_in_threadpool(receiver.feed, bytes(waiting))
                waiting.clear()
        await run_in_threadpool(receiver.feed, bytes(waiting))
        receiver.finish()
    except BaseException:
        await asyncio.shield(asyncio.to_thread(receiver.remove))
        raise
    return receiver

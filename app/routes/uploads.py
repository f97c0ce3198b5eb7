"""Uploads of files as runs, similar to tus 1.0 (https://tus.io/protocols/resumable-upload).

POST api/uploads {"files": [{"name", "size"}, ...]} creates an upload, whose stream is the contents
of all its files one after the other. HEAD returns Upload-Offset, PATCH appends from there, DELETE
cancels the upload. Once all bytes have arrived, the import begins automatically; GET returns its
progress.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.settings import Role
from app.uploads.errors import Stopping, TooBig, UploadError, WrongOffset, WrongType, WrongVersion
from app.uploads.files import MAX_LIST_BYTES, limit_bytes, parse_body
from app.uploads.uploads import Upload, Uploads, uploads_of
from app.web.answers import GONE
from app.web.caller import TOKEN, require
from ingest.errors import UserError

VERSION = "1.0.0"
MEDIA_TYPE = "application/offset+octet-stream"
AT_ONCE = 16
"""Connections that may send at the same time: each holds a MB or two of memory."""
AT_ONCE_OF_ONE_TOKEN = 8
STALL_S = 60.0
"""The server ends a connection that sends nothing for this long; the browser resumes later."""
_WRITE_BYTES = 1 << 20
_DRAIN_S = 10.0
"""A browser shows a refusal only after it has sent its bytes; the server discards them this
long."""

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(context: RouteContext) -> list[Route]:
    """POST api/uploads; HEAD, PATCH, GET and DELETE api/uploads/ID."""
    hub = context.hub
    answers = _Answers(uploads_of(hub))
    create = _refusal(hub.read_only) if hub.read_only else answers.create
    path = "/api/uploads/{id}"
    return [
        Route("/api/uploads", _guarded(create), methods=["POST"]),
        Route(path, _guarded(answers.offset), methods=["HEAD"]),
        Route(path, _guarded(answers.append), methods=["PATCH"]),
        Route(path, _guarded(answers.end), methods=["DELETE"]),
        Route(path, _guarded(answers.state), methods=["GET"]),
    ]


def _refusal(why: str) -> Endpoint:
    async def refuse(_request: Request) -> Response:
        raise UserError(why)

    return refuse


def _guarded(endpoint: Endpoint) -> Endpoint:
    """Require the uploader's role and the protocol; errors become a sentence with their status."""

    async def answer(request: Request) -> Response:
        require(request, Role.uploader)
        body = _Body(request)
        try:
            if request.method != "GET" and request.headers.get("tus-resumable") != VERSION:
                raise WrongVersion(f"uploads need the header Tus-Resumable: {VERSION}")
            request.state.body = body
            response = await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=GONE)
        except UserError as error:
            await body.drain()
            status = error.status if isinstance(error, UploadError) else 400
            response = JSONResponse({"error": str(error)}, status)
        response.headers["Tus-Resumable"] = VERSION
        response.headers["Cache-Control"] = "no-store"
        return response

    return answer


class _Answers:
    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self._sending: Counter[str] = Counter()

    async def _upload(self, request: Request) -> Upload:
        return await run_in_threadpool(self._uploads.get, request.path_params["id"])

    async def create(self, request: Request) -> Response:
        content = bytearray()
        async for piece in request.state.body.pieces():
            content += piece
            if len(content) > MAX_LIST_BYTES:
                raise TooBig("the list of files is too long; pack them into a tar file")
        heads = parse_body(bytes(content), limit_bytes())
        upload = await run_in_threadpool(self._uploads.create, heads, _token_of(request))
        # relative, so that a proxy's prefix is preserved
        where = {"Location": f"uploads/{upload.storage.id}", **_offsets(upload)}
        return JSONResponse({"id": upload.storage.id}, 201, where)

    async def offset(self, request: Request) -> Response:
        return Response(headers=_offsets(await self._upload(request)))

    async def append(self, request: Request) -> Response:
        headers = request.headers
        if headers.get("content-type", "").split(";")[0].strip() != MEDIA_TYPE:
            raise WrongType(f"the bytes of an upload have the media type {MEDIA_TYPE}")
        offset = _number(headers.get("upload-offset", ""))
        if offset is None:
            raise WrongOffset("the header Upload-Offset is missing or not a number of bytes")
        with self._slot(_token_of(request)):
            upload = await self._upload(request)
            num_bytes = _number(headers.get("content-length", ""))
            writer = await run_in_threadpool(upload.claim, offset, num_bytes)
            await self._write(request.state.body, upload, writer)
        return Response(status_code=204, headers=_offsets(upload))

    @contextmanager
    def _slot(self, token: str) -> Iterator[None]:
        """One of the connections that may send; raises Stopping if none is free."""
        then = "this one continues when one has ended"
        if self._sending.total() >= AT_ONCE:
            raise Stopping(f"{AT_ONCE} uploads are being sent; {then}")
        if token and self._sending[token] >= AT_ONCE_OF_ONE_TOKEN:
            raise Stopping(f"{AT_ONCE_OF_ONE_TOKEN} uploads with your token are being sent; {then}")
        self._sending[token] += 1
        try:
            yield
        finally:
            self._sending[token] -= 1

    async def _write(self, body: _Body, upload: Upload, writer: object) -> None:
        """Append the bytes; those that arrived before the connection broke count."""
        waiting = bytearray()
        try:
            async for piece in body.pieces():
                waiting += piece
                if len(waiting) >= _WRITE_BYTES:
                    full, waiting = waiting, bytearray()
                    await run_in_threadpool(upload.append, writer, full)
        finally:
            await asyncio.shield(asyncio.to_thread(self._end_writing, upload, writer, waiting))

    def _end_writing(self, upload: Upload, writer: object, rest: bytearray) -> None:
        try:
            if rest:
                upload.append(writer, rest)
        finally:
            upload.release(writer)
            self._uploads.import_if_whole(upload)

    async def state(self, request: Request) -> Response:
        return JSONResponse((await self._upload(request)).as_json())

    async def end(self, request: Request) -> Response:
        await run_in_threadpool(self._uploads.end, request.path_params["id"])
        return Response(status_code=204)


def _token_of(request: Request) -> str:
    """The digest of the uploader's token; '' on a server without tokens."""
    token: str = request.scope.get(TOKEN, "")
    return token


def _number(text: str) -> int | None:
    """A number of bytes in a header, None if it is not a valid file size."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _offsets(upload: Upload) -> dict[str, str]:
    total = upload.storage.files.num_bytes
    return {"Upload-Offset": str(upload.offset), "Upload-Length": str(total)}


class _Body:
    """The bytes of a request as they arrive, and whether all have arrived."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_at_end = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises ClientDisconnect if the browser has disconnected or sends nothing for too long."""
        while not self.is_at_end:
            try:
                async with asyncio.timeout(STALL_S):
                    message = await self.request.receive()
            except TimeoutError:
                raise ClientDisconnect from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self.is_at_end = not message.get("more_body", False)
            yield message.get("body", b"")

    async def drain(self) -> None:
        """Discard what still arrives, for a while."""
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_DRAIN_S):
                async for _ in self.pieces():
                    pass

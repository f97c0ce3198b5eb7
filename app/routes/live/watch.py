"""Capture requests of a running job, and the socket that sends the captured frames to browsers.

GET `api/watch?run=RUN` returns the capture requests and the connected ranks; POST begins and ends
requests, POST `api/command` sends the ranks another command; both need the operator's role and
return each rank's answer. `{base}/live/frames?run=RUN` sends frames, each browser at its own pace:
it gets the newest of each and the number of frames left out. With `reports=1` the browser reports
what it has drawn (app/live/frame_pacing.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.live.frame_cache import Reader, Wanted
from app.live.frame_pacing import FramePacing
from app.live.jobs import LiveJobs
from app.live.prompt import begin_prompt
from app.routes.context import RouteContext
from app.settings import Role
from app.web.answers import body_of
from app.web.caller import Forbidden, require
from app.web.metrics import METRICS
from app.web.plain_json import loads
from ingest.errors import UserError
from trace_hooks.protocol.prompts import PROMPT
from trace_hooks.protocol.watches import watches_of

FORBIDDEN, UNKNOWN = 4403, 4404
"""Close codes of the browsers' socket; the reason explains them."""
STATE_S = 1.0
SEND_LIMIT_S = 20.0
"""The server closes the socket of a browser that reads nothing for this long."""
_MOST_POSTED = 1 << 16
_MOST_WANTED = 64
_LONGEST_REASON = 120
_NO_STORE = {"Cache-Control": "no-store"}

Handler = Callable[[dict[str, Any], str], Awaitable[dict[str, Any]]]


def routes(context: RouteContext) -> list[BaseRoute]:
    """Capture requests, commands and the browsers' socket."""
    jobs = context.jobs

    async def watched(request: Request) -> Response:
        name = _run_of(request)
        run = jobs.ranks.runs.get(name)
        state = run.state() if run else {"watches": []}
        ranks = [run.ranks[key].as_json() for key in sorted(run.ranks)] if run else []
        return JSONResponse({**state, "ranks": ranks}, headers=_NO_STORE)

    async def watch(request: Request) -> Response:
        async def handle(body: dict[str, Any], run: str) -> dict[str, Any]:
            _require_only(body, "watches", "end")
            ended = body.get("end", [])
            if not isinstance(ended, list):
                raise UserError("end is not a list; give the ids of watches")
            watches = watches_of(body.get("watches", []))
            return await jobs.ranks.watch(run, watches, map(str, ended))

        return await _posted(request, handle)

    async def command(request: Request) -> Response:
        async def handle(body: dict[str, Any], run: str) -> dict[str, Any]:
            _require_only(body, "name", "args", "ranks")
            name, ranks = body.get("name"), body.get("ranks")
            if not isinstance(name, str) or not 0 < len(name) <= 60:
                raise UserError("a command needs a name")
            if ranks is not None and not (
                isinstance(ranks, list) and all(type(rank) is int for rank in ranks)
            ):
                raise UserError("ranks is not a list of numbers; leave it out for all ranks")
            if name == PROMPT:
                return await begin_prompt(jobs.ranks, run, body.get("args"))
            return await jobs.ranks.command(run, name, body.get("args"), ranks)

        return await _posted(request, handle)

    async def frames(websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            require(websocket, Role.operator)
            wanted = _wanted(websocket)
        except UserError as error:
            reason = str(error).encode()[:_LONGEST_REASON].decode(errors="ignore")
            await websocket.close(FORBIDDEN if isinstance(error, Forbidden) else UNKNOWN, reason)
            return
        reader = jobs.frames.open(wanted)
        try:
            with METRICS.open_socket():
                await _serve(jobs, websocket, reader)
        finally:
            jobs.frames.close(reader)

    return [
        Route("/api/watch", watched),
        Route("/api/watch", watch, methods=["POST"]),
        Route("/api/command", command, methods=["POST"]),
        WebSocketRoute("/live/frames", frames),
    ]


async def _posted(request: Request, handler: Handler) -> Response:
    """The answer to an operator's JSON; raises UserError for invalid JSON."""
    require(request, Role.operator)
    too_long = f"this is longer than {_MOST_POSTED} bytes; request less at once"
    content = await body_of(request, _MOST_POSTED, too_long)
    try:
        body = loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"this is not JSON; send an object ({str(error)[:80]})") from None
    if not isinstance(body, dict):
        raise UserError("this is not a JSON object; send one")
    try:
        return JSONResponse(await handler(body, _run_of(request)), headers=_NO_STORE)
    except ValueError as error:
        raise UserError(str(error)) from None


def _require_only(body: dict[str, Any], *known: str) -> None:
    unknown = [name for name in body if name not in known]
    if unknown:
        raise UserError(f"there is no {unknown[0][:40]!r} here; known are {', '.join(known)}")


def _run_of(request: HTTPConnection) -> str:
    name = request.query_params.get("run", "")
    if not name:
        raise UserError("which run? Give it as ?run=NAME")
    return name


def _wanted(websocket: WebSocket) -> Wanted:
    """Which frames a browser requests; raises UserError."""
    parameters = websocket.query_params
    numbers: dict[str, frozenset[int]] = {}
    for name in ("layer", "head"):
        texts = parameters.getlist(name)[:_MOST_WANTED]
        try:
            numbers[name] = frozenset(int(text) for text in texts)
        except ValueError:
            raise UserError(f"{name} is {' '.join(texts)[:40]!r}; give a number") from None
    return Wanted(
        _run_of(websocket),
        frozenset(parameters.getlist("watch")[:_MOST_WANTED]),
        frozenset(parameters.getlist("what")[:_MOST_WANTED]),
        numbers["layer"],
        numbers["head"],
    )


async def _serve(jobs: LiveJobs, websocket: WebSocket, reader: Reader) -> None:
    pacing = FramePacing(reader, reports=websocket.query_params.get("reports") == "1")
    sender = asyncio.create_task(_send(jobs, websocket, reader, pacing))
    receiver = asyncio.create_task(_receive(websocket, pacing))
    try:
        await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sender.cancel()
        receiver.cancel()
        # asyncio would log a send that fails while it is cancelled as an unretrieved error
        ended = await asyncio.gather(sender, receiver, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception) and not isinstance(
            error, WebSocketDisconnect | TimeoutError
        ):
            raise error


async def _send(jobs: LiveJobs, websocket: WebSocket, reader: Reader, pacing: FramePacing) -> None:
    """Send frames as they arrive and the state each second, one after the other."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        if loop.time() >= due_s:
            due_s = loop.time() + STATE_S
            await asyncio.wait_for(websocket.send_json(_state(jobs, reader)), SEND_LIMIT_S)
        content = pacing.take(loop.time())
        if content is not None:
            await asyncio.wait_for(websocket.send_bytes(content), SEND_LIMIT_S)
            continue
        await pacing.wait(loop.time(), due_s)


def _state(jobs: LiveJobs, reader: Reader) -> dict[str, Any]:
    run = jobs.ranks.runs.get(reader.wanted.run)
    state = run.state() if run else {"type": "state", "watches": [], "connected": 0}
    return {**state, "skipped": reader.skipped}


async def _receive(websocket: WebSocket, pacing: FramePacing) -> None:
    """Process the browser's messages until it disconnects."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        pacing.report(message.get("text") or "")

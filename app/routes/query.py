"""Answers of ready questions and of SQL, for the page and as CSV."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.hub import Hub
from app.routes.answering import answer
from app.routes.turns import Turns
from app.views.query import Query, answered, csv_pieces, prepared
from ingest.sandbox import Stop
from ingest.store import Run

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_NO_STORE = {"Cache-Control": "no-store"}


def routes(hub: Hub, turns: Turns) -> list[Route]:
    """GET api/run/RUN/query and query.csv; ?q=NAME&q.KEY=VALUE or ?sql=SELECT."""

    async def page(request: Request) -> Response:
        def compute(stop: Stop) -> bytes:
            run, query = _asked(hub, request)
            return msgspec.json.encode(asdict(answered(run, query, stop)))

        return await answer(
            request,
            compute,
            lambda body: Response(body, media_type="application/json", headers=_NO_STORE),
            turns,
        )

    async def csv_file(request: Request) -> Response:
        def compute(stop: Stop) -> tuple[bytes, Iterator[bytes], Stop]:
            pieces = csv_pieces(*_asked(hub, request), stop)
            return next(pieces), pieces, stop

        def respond(made: tuple[bytes, Iterator[bytes], Stop]) -> Response:
            name = f"{request.path_params['run']}-{request.query_params.get('q', 'sql')}"
            disposition = f'attachment; filename="{_NOT_IN_NAMES.sub("-", name)}.csv"'
            headers = {"Content-Disposition": disposition, **_NO_STORE}
            return StreamingResponse(_body(turns, *made), media_type="text/csv", headers=headers)

        return await answer(request, compute, respond, turns)

    return [
        Route("/api/run/{run}/query", page),
        Route("/api/run/{run}/query.csv", csv_file),
    ]


def _asked(hub: Hub, request: Request) -> tuple[Run, Query]:
    given = request.query_params
    run = hub.run(request.path_params["run"])
    args = {key[2:]: value for key, value in given.items() if key.startswith("q.")}
    return run, prepared(run, given.get("q"), given.get("sql"), args)


async def _body(
    turns: Turns, first: bytes, pieces: Iterator[bytes], stop: Stop
) -> AsyncIterator[bytes]:
    """The pieces; what a browser that left does not want is not computed."""
    close: Any = getattr(pieces, "close", lambda: None)
    try:
        yield first
        while (piece := await turns.run(partial(next, pieces, None), stop, False)) is not None:
            yield piece
    finally:
        stop()
        with suppress(ValueError):  # a thread is at it: interrupted, it closes them itself
            close()

"""Answers of ready questions and of SQL, for the page and as CSV."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec
from anyio import move_on_after
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.routes.tickets import Tickets
from app.runs.hub import Hub
from app.views.run.query import CSV_LIMIT_S, Query, answered, csv_pieces, prepared
from app.web.answers import BUSY, answer, body_of, busy
from app.web.caller import SESSION, require_page_header
from app.web.connections import connection_of
from app.web.request_queue import Busy, Owner, RequestQueue, owner_of
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_NO_STORE = {"Cache-Control": "no-store"}
_MOST_BYTES = 4 << 20
_CSV = "text/csv"
FILE_LIMIT_S = CSV_LIMIT_S + 60.0
"""Time for a CSV file to arrive: a reader of a few bytes a minute does not keep its place."""
_PATH = "/api/run/{run}/query"
_BY_ADDRESS = (
    'SQL is sent as POST with the JSON {"sql": ...} and the header X-Rankscope: an address alone '
    "runs nothing"
)


def routes(hub: Hub, questions: RequestQueue, sql: RequestQueue) -> list[Route]:
    """Saved questions by GET api/run/RUN/query and query.csv, ?q=NAME&q.KEY=VALUE; SQL that people
    write by POST to the same, {"sql": SELECT}; a link to its CSV by POST query.csv/ticket.
    """
    tickets = Tickets()

    async def saved(request: Request) -> Response:
        return await _page(request, lambda: _saved(hub, request), questions)

    async def written(request: Request) -> Response:
        text = await _sql_of(request)
        return await _page(request, lambda: _written(hub, request, text), sql)

    async def saved_csv(request: Request) -> Response:
        ticket = request.query_params.get("ticket")
        if ticket is None:
            return await _csv(request, lambda: _saved(hub, request), questions)
        is_probe = request.method == "HEAD"  # as of a download manager: it runs nothing
        kept = (tickets.find if is_probe else tickets.take)(
            ticket, request.scope.get(SESSION, ""), request.path_params["run"]
        )
        if kept is None:
            raise UserError("this link to a CSV file was used or is old; ask for the file again")
        if is_probe:
            return Response(media_type=_CSV, headers=_headers_of_file(request))
        response = await _csv(request, lambda: _written(hub, request, kept.text), sql)
        if response.status_code == BUSY:
            tickets.put_back(ticket, kept)
        return response

    async def written_csv(request: Request) -> Response:
        text = await _sql_of(request)
        return await _csv(request, lambda: _written(hub, request, text), sql)

    async def ticket(request: Request) -> Response:
        text = await _sql_of(request)
        session, run = request.scope.get(SESSION, ""), request.path_params["run"]
        return JSONResponse({"ticket": tickets.give(session, run, text)}, headers=_NO_STORE)

    async def ready(request: Request) -> Response:
        require_page_header(request)
        name = request.path_params["run"]
        return await answer(
            request,
            lambda _stop: hub.run(name).get_sql_ready(),
            lambda _: Response(status_code=204),
            sql,
        )

    return [
        Route(_PATH, saved, methods=["GET"]),
        Route(_PATH, written, methods=["POST"]),
        Route(f"{_PATH}.csv", saved_csv, methods=["GET"]),
        Route(f"{_PATH}.csv", written_csv, methods=["POST"]),
        Route(f"{_PATH}.csv/ticket", ticket, methods=["POST"]),
        Route(f"{_PATH}/ready", ready, methods=["POST"]),
    ]


async def _page(
    request: Request, asked: Callable[[], tuple[Run, Query]], turns: RequestQueue
) -> Response:
    session = request.scope.get(SESSION)

    def compute(stop: Stop) -> bytes:
        return msgspec.json.encode(asdict(answered(*asked(), stop, session=session)))

    def respond(body: bytes) -> Response:
        return Response(body, media_type="application/json", headers=_NO_STORE)

    return await answer(request, compute, respond, turns)


async def _csv(
    request: Request, asked: Callable[[], tuple[Run, Query]], turns: RequestQueue
) -> Response:
    owner = owner_of(request.scope)

    def compute(stop: Stop) -> tuple[bytes, Iterator[bytes], Stop]:
        pieces = csv_pieces(*asked(), stop)
        return next(pieces), pieces, stop

    def respond(made: tuple[bytes, Iterator[bytes], Stop]) -> Response:
        return _File(turns, owner, made, _headers_of_file(request))

    try:
        turns.begin_file(owner)
    except Busy as error:
        return busy(error)
    made: Response | None = None
    try:
        made = await answer(request, compute, respond, turns)
        return made
    finally:
        if not isinstance(made, _File):
            turns.end_file(owner)


def _headers_of_file(request: Request) -> dict[str, str]:
    name = f"{request.path_params['run']}-{request.query_params.get('q', 'sql')}"
    disposition = f'attachment; filename="{_NOT_IN_NAMES.sub("-", name)}.csv"'
    return {"Content-Disposition": disposition, **_NO_STORE}


class _File(StreamingResponse):
    """A CSV file; it has a place of `turns` until it was sent, or its browser left or is slow."""

    def __init__(
        self,
        turns: RequestQueue,
        owner: Owner,
        made: tuple[bytes, Iterator[bytes], Stop],
        headers: dict[str, str],
    ) -> None:
        super().__init__(_body(turns, owner, *made), media_type=_CSV, headers=headers)
        self._turns, self._owner, self._stop = turns, owner, made[2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            with move_on_after(FILE_LIMIT_S) as limit:
                await super().__call__(scope, receive, send)
        finally:
            self._stop()
            self._turns.end_file(self._owner)
        connection = connection_of(scope)
        if limit.cancelled_caught and connection is not None:
            connection.drop()  # without its end a file is known to be cut
            while (await receive())["type"] != "http.disconnect":
                pass


def _saved(hub: Hub, request: Request) -> tuple[Run, Query]:
    given = request.query_params
    if "sql" in given:
        raise UserError(_BY_ADDRESS)
    run = hub.run(request.path_params["run"])
    args = {key[2:]: value for key, value in given.items() if key.startswith("q.")}
    return run, prepared(run, given.get("q"), args)


def _written(hub: Hub, request: Request, text: str) -> tuple[Run, Query]:
    return hub.run(request.path_params["run"]), (text, None)


async def _sql_of(request: Request) -> str:
    """The SQL that a page or a program sends; raises Forbidden, UserError."""
    require_page_header(request)
    body = await body_of(request, _MOST_BYTES, "SQL: the text is too long")
    try:
        text = msgspec.json.decode(body, type=_Sql).sql
    except (msgspec.DecodeError, RecursionError):
        raise UserError('send the JSON object {"sql": "SELECT ..."}') from None
    if not text.strip():
        raise UserError("there is no SQL; write a SELECT")
    return text


class _Sql(msgspec.Struct):
    sql: str


async def _body(
    turns: RequestQueue, owner: Owner, first: bytes, pieces: Iterator[bytes], stop: Stop
) -> AsyncIterator[bytes]:
    """The pieces; what a browser that left does not want is not computed."""
    close: Any = getattr(pieces, "close", lambda: None)
    try:
        yield first
        following = partial(next, pieces, None)
        while (piece := await turns.run(following, stop, owner, is_new=False)) is not None:
            yield piece
    finally:
        stop()
        with suppress(ValueError):  # a thread is at it: interrupted, it closes them itself
            close()

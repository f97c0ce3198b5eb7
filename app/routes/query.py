"""Answers of saved queries and of SQL, for the page and as CSV."""

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

from app.routes.context import RouteContext
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
"""Time for a CSV file to arrive: a reader of a few bytes a minute must not occupy its slot."""
_PATH = "/api/run/{run}/query"
_BY_ADDRESS = (
    'SQL is sent as POST with the JSON {"sql": ...} and the header X-Rankscope: an address alone '
    "runs nothing"
)


def routes(context: RouteContext) -> list[Route]:
    """Saved queries by GET api/run/RUN/query and query.csv, ?q=NAME&q.KEY=VALUE; SQL by POST to the
    same addresses, {"sql": SELECT}; a link to its CSV by POST query.csv/ticket.
    """
    hub, questions, sql = context.hub, context.questions, context.sql
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
        is_probe = request.method == "HEAD"  # such as from a download manager: it runs nothing
        order = (tickets.find if is_probe else tickets.take)(
            ticket, request.scope.get(SESSION, ""), request.path_params["run"]
        )
        if order is None:
            raise UserError("this link to a CSV file was used or is old; request the file again")
        if is_probe:
            return Response(media_type=_CSV, headers=_headers_of_file(request))
        response = await _csv(request, lambda: _written(hub, request, order.text), sql)
        if response.status_code == BUSY:
            tickets.put_back(ticket, order)
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
    request: Request, prepare: Callable[[], tuple[Run, Query]], queue: RequestQueue
) -> Response:
    session = request.scope.get(SESSION)

    def compute(stop: Stop) -> bytes:
        return msgspec.json.encode(asdict(answered(*prepare(), stop, session=session)))

    def respond(body: bytes) -> Response:
        return Response(body, media_type="application/json", headers=_NO_STORE)

    return await answer(request, compute, respond, queue)


async def _csv(
    request: Request, prepare: Callable[[], tuple[Run, Query]], queue: RequestQueue
) -> Response:
    owner = owner_of(request.scope)

    def compute(stop: Stop) -> tuple[bytes, Iterator[bytes], Stop]:
        pieces = csv_pieces(*prepare(), stop)
        return next(pieces), pieces, stop

    def respond(made: tuple[bytes, Iterator[bytes], Stop]) -> Response:
        return _File(queue, owner, made, _headers_of_file(request))

    try:
        queue.begin_file(owner)
    except Busy as error:
        return busy(error)
    made: Response | None = None
    try:
        made = await answer(request, compute, respond, queue)
        return made
    finally:
        if not isinstance(made, _File):
            queue.end_file(owner)


def _headers_of_file(request: Request) -> dict[str, str]:
    name = f"{request.path_params['run']}-{request.query_params.get('q', 'sql')}"
    disposition = f'attachment; filename="{_NOT_IN_NAMES.sub("-", name)}.csv"'
    return {"Content-Disposition": disposition, **_NO_STORE}


class _File(StreamingResponse):
    """A CSV file; it occupies a slot of `queue` until it is sent, aborted or too slow."""

    def __init__(
        self,
        queue: RequestQueue,
        owner: Owner,
        made: tuple[bytes, Iterator[bytes], Stop],
        headers: dict[str, str],
    ) -> None:
        super().__init__(_body(queue, owner, *made), media_type=_CSV, headers=headers)
        self._queue, self._owner, self._stop = queue, owner, made[2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file and release its slot."""
        try:
            with move_on_after(FILE_LIMIT_S) as limit:
                await super().__call__(scope, receive, send)
        finally:
            self._stop()
            self._queue.end_file(self._owner)
        connection = connection_of(scope)
        if limit.cancelled_caught and connection is not None:
            connection.drop()  # so the client notices that the file is incomplete
            while (await receive())["type"] != "http.disconnect":
                pass


def _saved(hub: Hub, request: Request) -> tuple[Run, Query]:
    parameters = request.query_params
    if "sql" in parameters:
        raise UserError(_BY_ADDRESS)
    run = hub.run(request.path_params["run"])
    args = {key[2:]: value for key, value in parameters.items() if key.startswith("q.")}
    return run, prepared(run, parameters.get("q"), args)


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
    queue: RequestQueue, owner: Owner, first: bytes, pieces: Iterator[bytes], stop: Stop
) -> AsyncIterator[bytes]:
    """The pieces; stops the computation once the browser has disconnected."""
    close: Any = getattr(pieces, "close", lambda: None)
    try:
        yield first
        following = partial(next, pieces, None)
        while (piece := await queue.run(following, stop, owner, is_new=False)) is not None:
            yield piece
    finally:
        stop()
        # a thread still uses it: once interrupted, that thread closes it
        with suppress(ValueError):
            close()

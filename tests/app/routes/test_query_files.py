"""CSV files of SQL: how many are sent at once, and how many links to them are kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.access.auth import NoGuard
from app.routes import query
from app.routes.context import RouteContext
from app.routes.tickets import MOST_CHARACTERS, MOST_OF_ONE_SESSION, VALID_S, Order, Tickets
from app.runs.hub import Hub
from app.server import make_app
from app.web.request_queue import AT_ONCE, Owner
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.runs_builder import two_rank_run


async def as_sentence(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


def text_of(kept: Order | None) -> str | None:
    return None if kept is None else kept.text


def test_nobody_takes_the_tickets_of_others() -> None:
    tickets = Tickets()
    mine = tickets.give("me", "run", "SELECT 1")
    theirs = [tickets.give("them", "run", "SELECT 2") for _ in range(1000)]
    assert text_of(tickets.take(mine, "me", "run")) == "SELECT 1"
    kept = [text_of(tickets.take(ticket, "them", "run")) for ticket in theirs]
    assert kept == [None] * (1000 - MOST_OF_ONE_SESSION) + ["SELECT 2"] * MOST_OF_ONE_SESSION


def test_tickets_keep_no_more_text_than_the_server_can_spare() -> None:
    tickets = Tickets()
    text = "SELECT '" + "x" * 900_000 + "'"
    given = [(str(i), tickets.give(str(i), "run", text)) for i in range(50)]
    kept = [text_of(tickets.take(ticket, session, "run")) for session, ticket in given]
    assert 0 < sum(len(one or "") for one in kept) <= MOST_CHARACTERS


def test_a_text_that_is_too_long_gets_no_ticket() -> None:
    with pytest.raises(UserError, match="1000000 is the limit"):
        Tickets().give("me", "run", "x" * 1_000_001)


def test_the_place_of_a_file_is_given_back(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "two")
    with closing(Hub(tmp_path)) as hub:
        client = Client(make_app(hub))
        for text in ["SELECT 1", "SELECT nothing"] * (AT_ONCE + 1):
            answer = client.request(
                "POST", "/api/run/two/query.csv", json={"sql": text}, headers={"X-Rankscope": "1"}
            )
            assert answer.status_code == (200 if text == "SELECT 1" else 400), answer.text
        client.close()


def test_a_ticket_is_spent_by_a_file_and_by_nothing_else(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "two")
    with closing(Hub(tmp_path)) as hub:
        context = RouteContext(hub)
        client = Client(
            Starlette(
                routes=query.routes(context),
                exception_handlers={UserError: as_sentence},
                middleware=[Middleware(NoGuard)],
            )
        )
        path, body = "/api/run/two/query.csv", {"sql": "SELECT 42 AS answer"}
        ticket = client.request("POST", f"{path}/ticket", json=body).json()["ticket"]
        link = f"{path}?ticket={ticket}"
        probed = client.request("HEAD", link)
        assert (probed.status_code, probed.content) == (200, b"")
        assert probed.headers["content-type"].startswith("text/csv")
        assert client.request("HEAD", f"{path}?ticket=unknown").status_code == 400
        others = [Owner(str(number)) for number in range(AT_ONCE)]
        for owner in others:
            context.sql.begin_file(owner)
        assert client.get(link).status_code == 503
        for owner in others:
            context.sql.end_file(owner)
        assert client.get(link).text.split() == ["answer", "42"]
        assert client.get(link).status_code == 400
        client.close()


def test_a_ticket_that_is_put_back_ends_when_it_would_have() -> None:
    tickets = Tickets()
    ticket = tickets.give("me", "run", "SELECT 1")
    kept = tickets.take(ticket, "me", "run")
    assert kept is not None
    tickets.give("me", "run", "SELECT 2")
    tickets.put_back(ticket, kept)
    assert tickets.take(ticket, "me", "run") == kept
    tickets.put_back(ticket, replace(kept, issued_s=kept.issued_s - VALID_S))
    assert tickets.take(ticket, "me", "run") is None

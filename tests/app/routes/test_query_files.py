"""CSV files of SQL: how many are sent at once, and how many links to them are kept."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.access.auth import NoGuard
from app.routes import query
from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.server import make_app
from app.web.request_queue import AT_ONCE, Owner
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.runs_builder import two_rank_run


async def as_sentence(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


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

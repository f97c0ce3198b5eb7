"""Answers of routes: errors as sentences, queries that end when the browser leaves."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.runs.hub import Hub
from app.web.answers import answer, stop_all
from ingest.errors import UserError
from ingest.stopping import Stop
from tests.app.server.asgi import Client
from tests.app.server.test_routes import ENDLESS


def small_app(route: Any) -> Starlette:
    return Starlette(routes=[Route("/", route)])


def test_an_error_of_the_user_is_a_sentence() -> None:
    def failing(_stop: Stop) -> int:
        raise UserError("there is no rank 9")

    async def route(request: Request) -> Response:
        return await answer(request, failing, lambda _: Response())

    content = Client(small_app(route)).get("/")
    assert (content.status, content.json()) == (400, {"error": "there is no rank 9"})


def query_app(hub: Hub, ended: list[str]) -> Starlette:
    def compute(stop: Stop) -> int:
        try:
            return hub.run("job").sql(ENDLESS, stop=stop).num_rows
        except UserError as error:
            ended.append(str(error))
            raise

    async def route(request: Request) -> Response:
        return await answer(request, compute, lambda n: JSONResponse(n))

    return small_app(route)


def leave(app: Starlette, after_s: float) -> list[dict[str, Any]]:
    """Ask and go away after a moment; what the app sent to nobody."""
    sent: list[dict[str, Any]] = []
    scope = Client(app).scope("http", "/", {}) | {"method": "GET"}

    async def exchange() -> None:
        begun_s = time.monotonic()

        async def receive() -> dict[str, Any]:
            left_s = begun_s + after_s - time.monotonic()
            if left_s > 0:
                await asyncio.sleep(left_s)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(app(scope, receive, send), 20)

    asyncio.run(exchange())
    return sent


def test_a_browser_that_left_ends_its_query(hub: Hub) -> None:
    ended: list[str] = []
    begun_s = time.monotonic()
    sent = leave(query_app(hub, ended), after_s=0.3)
    assert time.monotonic() - begun_s < 5
    assert "was interrupted" in ended[0]
    assert sent[0]["status"] == 499


def test_a_server_that_stops_ends_its_queries(hub: Hub) -> None:
    ended: list[str] = []

    async def exchange() -> None:
        app = query_app(hub, ended)
        scope = Client(app).scope("http", "/", {}) | {"method": "GET"}

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(90)
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        request = asyncio.create_task(app(scope, receive, send))
        await asyncio.sleep(0.5)
        stop_all()
        await asyncio.wait_for(request, 60)

    asyncio.run(exchange())
    assert "was interrupted" in ended[0]

"""The list of runs, which the start page requests every two seconds."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.run_board import board_of
from app.routes.context import RouteContext
from app.web.answers import answer


def routes(context: RouteContext) -> list[Route]:
    """GET api/runs: {"runs": [app.views.run.runs.RunRow, ...]}, newest activity first."""
    hub = context.hub

    async def listing(request: Request) -> Response:
        return await answer(
            request,
            lambda _stop: board_of(hub).rows(),
            lambda rows: JSONResponse({"runs": [asdict(row) for row in rows]}),
        )

    return [Route("/api/runs", listing)]

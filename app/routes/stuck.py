"""GET api/run/{run}/stuck[?attempt=N]: where the ranks of a job without progress stand, as JSON."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.stuck_page import stuck_page
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.web.answers import answer
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """The one route of the page."""

    def compute(params: Parameters, stop: Stop) -> dict[str, Any]:
        return stuck_page(context.hub, params.run, params.whole("attempt"), stop)

    async def handle(request: Request) -> Response:
        return await answer(request, lambda stop: compute(Parameters(request), stop), JSONResponse)

    return [Route("/api/run/{run}/stuck", handle)]

"""GET api/run/{run}/data[?attempt=N&steps=A..B]: what data loaders did, as JSON."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.views.data_loading import DataLoading, data_loading_of
from app.web.answers import answer
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """The one route of the page."""
    hub = context.hub

    async def data(request: Request) -> Response:
        params = Parameters(request)

        def compute(stop: Stop) -> DataLoading:
            attempt, steps = params.whole("attempt"), params.pair("steps")
            return hub.cache.get(
                params.run,
                ("data loading", attempt, steps),
                lambda run, stop: data_loading_of(run, attempt, steps, stop),
                stop=stop,
            )

        return await answer(request, compute, lambda found: JSONResponse(asdict(found)))

    return [Route("/api/run/{run}/data", data)]

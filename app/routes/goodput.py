"""The start of a job and what its time went to over its attempts, for the page Efficiency, as JSON.

GET api/run/{run}/startup[?attempt=N]  the start-up of an attempt, by rank and phase
GET api/run/{run}/goodput              the ledger of all attempts; null before any rank has a
                                       file; or the key `reason`, why there is none
"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.policies import min_age
from app.views.efficiency.goodput import Goodput, as_json, goodput_of
from app.views.efficiency.startup import Startup, startup_of
from app.web.answers import answer
from ingest.stopping import Stop

_STARTING_S, _LEDGER_S = 2.0, 5.0


def routes(context: RouteContext) -> list[Route]:
    """Both routes."""
    hub = context.hub

    async def startup(request: Request) -> Response:
        params = Parameters(request)

        def compute(stop: Stop) -> Startup:
            attempt = params.whole("attempt")
            return hub.cache.get(
                params.run,
                ("startup", attempt),
                lambda run, stop: startup_of(run, attempt, stop),
                min_age(_STARTING_S),
                stop,
            )

        return await answer(request, compute, lambda found: JSONResponse(asdict(found)))

    async def goodput(request: Request) -> Response:
        params = Parameters(request)

        def compute(stop: Stop) -> Goodput | str | None:
            return hub.cache.get(params.run, ("goodput",), goodput_of, min_age(_LEDGER_S), stop)

        return await answer(request, compute, lambda found: JSONResponse(as_json(found)))

    return [
        Route("/api/run/{run}/startup", startup),
        Route("/api/run/{run}/goodput", goodput),
    ]

"""Where the time of the devices goes, for the page Efficiency, as JSON.

GET api/run/{run}/mfu[?attempt=N&steps=A..B&peak=X&finding=F]  the waterfall of some steps
GET api/run/{run}/mfu/change[?attempt=N&peak=X]                since when more is lost
GET api/run/{run}/mfu/change?steps=A..B&against=C..D[&...]     what changed from C..D to A..B
GET api/run/{run}/mfu/operations[?attempt=N&steps=A..B&peak=X&bandwidth=X]  single operations
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.page_scope import page_scope
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.policies import min_age
from app.view_state import View, peak_of
from app.views.efficiency import operations
from app.views.efficiency.mfu import (
    Asked,
    as_json,
    change_between,
    decline_of,
    efficiency_of,
    without_steps,
)
from app.web.answers import answer
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

_REST_S = 5.0


def routes(context: RouteContext) -> list[Route]:
    """The routes of both sections."""
    hub = context.hub

    def cached(params: Parameters, key: tuple[Any, ...], make: Callable[[Asked], Any], stop: Stop):
        attempt, peak = params.whole("attempt"), _above_zero(params, "peak")

        def compute(run: Run, stop: Stop | None) -> Any:
            chosen = run.newest_attempt if attempt is None else attempt
            return make(Asked(run, chosen, peak, stop))

        whole_key = ("mfu", attempt, peak, *key)
        return hub.cache.get(params.run, whole_key, compute, policy=min_age(_REST_S), stop=stop)

    def mfu(params: Parameters, stop: Stop) -> dict[str, Any]:
        finding = params.text("finding") or None
        view = View(params.run, attempt=params.whole("attempt"), finding=finding)
        scope = page_scope(hub, view.to(steps=params.pair("steps")), stop)
        steps = scope.steps
        if steps is None:
            return {"waterfall": None, "why": without_steps(hub.run(params.run))}
        found = cached(
            params, ("waterfall", steps), lambda asked: efficiency_of(asked, steps), stop
        )
        return {"waterfall": as_json(found), "why": scope.why}

    def change(params: Parameters, stop: Stop) -> dict[str, Any]:
        steps, against = params.pair("steps"), params.pair("against")
        if against is None:
            return asdict(cached(params, ("decline",), decline_of, stop))
        if steps is None:
            raise UserError("against needs steps to compare with it, such as steps=20..29")

        def make(asked: Asked) -> Any:
            return change_between(asked, against, steps)

        return asdict(cached(params, ("change", steps, against), make, stop))

    def single(params: Parameters, stop: Stop) -> dict[str, Any]:
        attempt, steps = params.whole("attempt"), params.pair("steps")
        given = _above_zero(params, "peak"), _above_zero(params, "bandwidth")

        def compute(run: Run, stop: Stop | None) -> dict[str, Any]:
            chosen = run.newest_attempt if attempt is None else attempt
            asked = operations.Asked(run, chosen, *given, stop)
            return operations.as_json(operations.roofline_of(asked, steps))

        key = ("operations", attempt, steps, *given)
        return hub.cache.get(params.run, key, compute, policy=min_age(_REST_S), stop=stop)

    def route(path: str, compute: Callable[[Parameters, Stop], Any]) -> Route:
        async def handle(request: Request) -> Response:
            return await answer(
                request, lambda stop: compute(Parameters(request), stop), JSONResponse
            )

        return Route(f"/api/run/{{run}}/mfu{path}", handle)

    return [route("", mfu), route("/change", change), route("/operations", single)]


def _above_zero(params: Parameters, name: str) -> float | None:
    try:
        return peak_of(params.text(name))
    except ValueError as error:
        raise UserError(f"{name} is not usable: {error}") from None

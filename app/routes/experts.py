"""What the page Experts asks for.

GET api/run/{run}/experts[?attempt=N&steps=A..B&finding=F]   map of loads, balance of ranks, binary
GET api/run/{run}/experts/steps[?...]                        MaxVio over steps, binary
GET api/run/{run}/experts/expert?layer=L&expert=E[&router=R&...]  load of one over steps, binary
GET api/run/{run}/experts/ranks[?...]                        all-to-alls and ping-pong, JSON
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.page_scope import PageScope, page_scope
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.policies import min_age
from app.view_state import View
from app.views.experts.answers import Answer, expert_answer, loads_answer, steps_answer
from app.views.experts.loads import NO_STEPS
from app.views.experts.ranks import expert_ranks_of
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

_REST_S = 5.0


def routes(context: RouteContext) -> list[Route]:
    """The four routes of the page."""
    hub = context.hub

    def scope(params: Parameters, stop: Stop) -> PageScope:
        finding = params.text("finding") or None
        view = View(params.run, attempt=params.whole("attempt"), finding=finding)
        return page_scope(hub, view.to(steps=params.pair("steps")), stop)

    def cached(params: Parameters, key: tuple[Any, ...], make: Any, stop: Stop) -> Any:
        """`make(run, attempt, stop)`, by attempt and key."""
        given = params.whole("attempt")

        def compute(run: Run, stop: Stop | None) -> Any:
            return make(run, run.newest_attempt if given is None else given, stop)

        return hub.cache.get(
            params.run, ("experts", given, *key), compute, policy=min_age(_REST_S), stop=stop
        )

    def loads(params: Parameters, stop: Stop) -> Answer:
        shown = scope(params, stop)
        steps = shown.steps or NO_STEPS

        def make(run: Run, attempt: int, stop: Stop) -> Answer:
            return loads_answer(run, attempt, steps, shown.why, stop)

        return Answer(*cached(params, ("loads", steps, shown.why), make, stop))

    def over_steps(params: Parameters, stop: Stop) -> Answer:
        steps = scope(params, stop).steps or NO_STEPS

        def make(run: Run, attempt: int, stop: Stop) -> Answer:
            return steps_answer(run, attempt, steps, stop)

        return Answer(*cached(params, ("steps", steps), make, stop))

    def one_expert(params: Parameters, stop: Stop) -> Answer:
        steps = scope(params, stop).steps or NO_STEPS
        layer = -1 if params.text("layer") == "-1" else params.whole("layer")
        expert = params.whole("expert")
        if layer is None or expert is None:
            raise UserError("give a layer and an expert, such as layer=3&expert=17")
        where = (layer, expert, params.whole("router") or 0)

        def make(run: Run, attempt: int, stop: Stop) -> Answer:
            return expert_answer(run, attempt, steps, where, stop)

        return Answer(*cached(params, ("one", steps, where), make, stop))

    def ranks(params: Parameters, stop: Stop) -> dict[str, Any]:
        steps = scope(params, stop).steps or NO_STEPS

        def make(run: Run, attempt: int, stop: Stop) -> dict[str, Any]:
            return asdict(expert_ranks_of(run, attempt, steps, stop))

        return dict(cached(params, ("ranks", steps), make, stop))

    def binary(found: Answer) -> Response:
        return Response(pack_arrays(*found), media_type=MEDIA_TYPE)

    def route(path: str, compute: Callable[[Parameters, Stop], Any], respond: Any) -> Route:
        async def handle(request: Request) -> Response:
            return await answer(request, lambda stop: compute(Parameters(request), stop), respond)

        return Route(f"/api/run/{{run}}/experts{path}", handle)

    return [
        route("", loads, binary),
        route("/steps", over_steps, binary),
        route("/expert", one_expert, binary),
        route("/ranks", ranks, JSONResponse),
    ]

"""Data of the what-if page.

what-if           the numbers, or {"reason": sentence} if the data do not allow them
what-if/causes    which rank, stage or operation costs how much
what-if/costs     what each finding costs, as everywhere else: from the diagnosis, not from a replay
what-if/schedules what the pipeline would take under other schedules
what-if/advice    which change of the job's parallelism would save most
what-if/schedule  one step of it, as measured and under the schedule `name`
what-if/replay    one step as replayed and without stragglers, as arrays

All take `attempt` and `steps=FIRST..LAST`; replay also `step` and `rank`; schedules and schedule
also `microbatches`, `chunks`, `split`, `held`, `memory`, `forward_speed`, `handover_ms` and
`stragglers=no`. While a run has new data, they are recomputed every few seconds at most
(app.analysis.whatif_answers); `is_outdated` says whether there is newer data.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.whatif_answers import Json, WhatIfAnswers
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.views.whatif.schedules import FIELDS, Asked
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.stopping import Stop

Compute = Callable[[WhatIfAnswers, Parameters], Json]
_PATH = "/api/run/{run}/what-if"


def _asked(params: Parameters) -> Asked:
    """Changes of the job."""
    return Asked.of_link({name: params.text(name, most=2_000) for name in FIELDS})


_JSON: dict[str, Compute] = {
    "": lambda answers, _: answers.numbers(),
    "/causes": lambda answers, _: answers.causes(),
    "/costs": lambda answers, _: answers.costs(),
    "/schedules": lambda answers, params: answers.schedules(_asked(params)),
    "/schedule": lambda answers, params: answers.schedule(_asked(params), params.text("name")),
    "/advice": lambda answers, _: answers.advice(),
}


def routes(context: RouteContext) -> list[Route]:
    """The routes of this module, computed in this queue."""
    hub, queue = context.hub, context.whatifs

    def answers_of(params: Parameters, stop: Stop) -> WhatIfAnswers:
        chosen = params.whole("attempt"), params.pair("steps")
        return WhatIfAnswers(hub, params.run, *chosen, stop)

    def route(path: str, compute: Callable[[Parameters, Stop], Response]) -> Route:
        async def handle(request: Request) -> Response:
            return await answer(
                request, lambda stop: compute(Parameters(request), stop), lambda made: made, queue
            )

        return Route(_PATH + path, handle)

    def of_json(path: str, compute: Compute) -> Route:
        return route(
            path,
            lambda params, stop: JSONResponse(compute(answers_of(params, stop), params)),
        )

    def replay(params: Parameters, stop: Stop) -> Response:
        made = answers_of(params, stop).replay(params.whole("step"), params.whole("rank"))
        return Response(pack_arrays(made.arrays, made.meta), media_type=MEDIA_TYPE)

    return [*(of_json(path, compute) for path, compute in _JSON.items()), route("/replay", replay)]

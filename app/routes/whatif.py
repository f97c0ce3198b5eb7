"""Data of the what-if page.

what-if           the numbers, or {"reason": sentence} if the data do not allow them
what-if/causes    which rank, stage or operation costs how much
what-if/costs     what each finding costs, as everywhere else: from the diagnosis, not from a replay
what-if/schedules what the pipeline would take under other schedules
what-if/advice    which change of the job's parallelism would save most
what-if/schedule  one step of it, as measured and under the schedule `name`
what-if/replay    one step as replayed and without stragglers, as arrays

All take `attempt` and `steps=FIRST..LAST`; replay also `step` and `rank`; schedules and schedule
also `microbatches`, `chunks`, `split`, `held` and `stragglers=no`. While a run has new data,
they are recomputed at most every NEW_EVERY_S, less often if that takes long; `is_outdated` says
whether there is newer data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_costs import costs_json
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.answer_store import Cached
from app.runs.hub import Hub
from app.runs.policies import min_age
from app.views.whatif.analysis import Answer, Refusal, Steps, stop_here, whatif_or_refusal
from app.views.whatif.answer import causes_json, cell_of, numbers, replayed
from app.views.whatif.schedules import Asked, advice_of, schedules_of, timeline_of
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from diagnosis.whatif.causes import causes
from ingest.stopping import Stop

Compute = Callable[[Parameters, Stop], Response]

NEW_EVERY_S = 5.0
_PATH = "/api/run/{run}/what-if"


class _Answers:
    """The answers of this module's routes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def numbers(self, params: Parameters, stop: Stop) -> Response:
        cached = self._analysis(params, stop)
        analysis = cached.value
        content = _refused(analysis) if isinstance(analysis, Refusal) else numbers(analysis)
        is_outdated = self._hub.version(params.run) > cached.version
        return JSONResponse(content | {"is_outdated": is_outdated})

    def causes(self, params: Parameters, stop: Stop) -> Response:
        def found(analysis: Answer, version: int) -> dict[str, Any]:
            named = self._hub.cache.get(
                params.run,
                ("what-if causes", version, _scope(params)),
                lambda _run, stop: causes(analysis.prepared, lambda: stop_here(stop)),
                min_age(NEW_EVERY_S),
                stop,
            )
            return causes_json(named)

        return self._of_analysis(params, stop, found)

    def costs(self, params: Parameters, stop: Stop) -> Response:
        diagnosis = diagnosis_of(self._hub, params.run, params.whole("attempt"), stop)
        return JSONResponse(costs_json(diagnosis))

    def schedules(self, params: Parameters, stop: Stop) -> Response:
        asked = _asked(params)
        return self._of_analysis(
            params,
            stop,
            lambda analysis, version: self._hub.cache.get(
                params.run,
                ("what-if schedules", version, _scope(params), asked),
                lambda _run, stop: schedules_of(analysis, asked, lambda: stop_here(stop)),
                min_age(NEW_EVERY_S),
                stop,
            ),
        )

    def schedule(self, params: Parameters, stop: Stop) -> Response:
        name, asked = params.text("name"), _asked(params)
        return self._of_analysis(
            params,
            stop,
            lambda analysis, version: self._hub.cache.get(
                params.run,
                ("what-if schedule", name, version, _scope(params), asked),
                lambda _run, stop: timeline_of(analysis, asked, name),
                min_age(NEW_EVERY_S),
                stop,
            ),
        )

    def advice(self, params: Parameters, stop: Stop) -> Response:
        return self._of_analysis(
            params,
            stop,
            lambda analysis, version: self._hub.cache.get(
                params.run,
                ("what-if advice", version, _scope(params)),
                lambda _run, stop: advice_of(analysis, lambda: stop_here(stop)),
                min_age(NEW_EVERY_S),
                stop,
            ),
        )

    def _of_analysis(
        self,
        params: Parameters,
        stop: Stop,
        compute: Callable[[Answer, int], dict[str, Any]],
    ) -> Response:
        """What `compute` makes of the analysis and its version, or why there is none."""
        cached = self._analysis(params, stop)
        if isinstance(cached.value, Refusal):
            return JSONResponse(_refused(cached.value))
        return JSONResponse(compute(cached.value, cached.version))

    def replay(self, params: Parameters, stop: Stop) -> Response:
        analysis = self._analysis(params, stop).value
        if isinstance(analysis, Refusal):
            return Response(pack_arrays({}, _refused(analysis)), media_type=MEDIA_TYPE)
        cell = cell_of(self._hub.run(params.run), analysis, params.whole("rank"))
        stop_here(stop)
        made = replayed(analysis, params.whole("step"), cell)
        return Response(pack_arrays(made.arrays, made.meta), media_type=MEDIA_TYPE)

    def _analysis(self, params: Parameters, stop: Stop) -> Cached[Answer | Refusal]:
        attempt, steps = _scope(params)
        return self._hub.cache.fetch(
            params.run,
            ("what-if", attempt, steps),
            lambda run, stop: whatif_or_refusal(run, attempt, steps, stop),
            min_age(NEW_EVERY_S),
            stop,
        )


def _scope(params: Parameters) -> tuple[int | None, Steps | None]:
    """The requested attempt and steps."""
    return params.whole("attempt"), params.pair("steps")


def _asked(params: Parameters) -> Asked:
    """Changes of the job."""
    return Asked(
        params.whole("microbatches"),
        params.whole("chunks"),
        params.text("split", most=2_000),
        params.whole("held"),
        params.text("stragglers") != "no",
    )


def _refused(refusal: Refusal) -> dict[str, object]:
    return {"reason": refusal.reason}


def routes(context: RouteContext) -> list[Route]:
    """The routes of this module, computed in this queue."""
    hub, queue = context.hub, context.whatifs
    answers = _Answers(hub)

    def route(path: str, compute: Compute) -> Route:
        async def handle(request: Request) -> Response:
            return await answer(
                request, lambda stop: compute(Parameters(request), stop), lambda made: made, queue
            )

        return Route(_PATH + path, handle)

    return [
        route("", answers.numbers),
        route("/causes", answers.causes),
        route("/costs", answers.costs),
        route("/schedules", answers.schedules),
        route("/schedule", answers.schedule),
        route("/advice", answers.advice),
        route("/replay", answers.replay),
    ]

"""Data of the step-time strip on top of every page, and of what the job logged.

GET api/run/{run}/strip[?attempt=N&wait=no]    app.views.run.strip.Strip as binary arrays; wait=no:
                                               of many ranks without findings not known yet
GET api/run/{run}/logged[?attempt=N&width=W]   loss, gradient norm and learning rate by step, binary
"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.analysis.page_scope import MOST_RANKS_AT_ONCE
from app.routes.context import RouteContext
from app.routes.findings import attempt_of
from app.routes.ranks import Parameters
from app.runs.hub import Hub
from app.runs.policies import min_age
from app.views.run.logged import logged, pooled
from app.views.run.strip import Strip, strip_of
from app.web.answers import answer, answer_prefetched
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

_REST_S = 1.0
_MOST_WIDE = 4096


def routes(context: RouteContext) -> list[Route]:
    """The strip's route and that of the numbers that the job logged."""
    hub = context.hub

    async def strip(request: Request) -> Response:
        name, given = request.path_params["run"], request.query_params.get("attempt")

        def compute(run: Run, stop: Stop | None) -> bytes:
            attempt = attempt_of(given)
            return packed(strip_of(run, diagnosis_of(hub, name, attempt, stop), attempt, stop))

        def at_once(stop: Stop) -> bytes:
            run, attempt = hub.run(name), attempt_of(given)
            if len(run.ranks) <= MOST_RANKS_AT_ONCE:
                return compute(run, stop)
            return packed(strip_of(run, None, attempt, stop), is_whole=False)

        if request.query_params.get("wait") == "no" and not _is_diagnosed(hub, name, given):
            return await answer(
                request, at_once, lambda made: Response(made, media_type=MEDIA_TYPE)
            )
        return await answer_prefetched(request, hub, "strip", compute, MEDIA_TYPE)

    async def numbers(request: Request) -> Response:
        params = Parameters(request)

        def compute(stop: Stop) -> bytes:
            attempt = params.whole("attempt")
            width = min(max(params.whole("width", 400) or 0, 1), _MOST_WIDE)
            found = hub.cache.get(
                params.run,
                ("logged", attempt),
                lambda run, stop: logged(run, attempt, stop),
                min_age(_REST_S),
                stop,
            )
            arrays, meta = pooled(found, width)
            return pack_arrays(arrays, meta | {"is_live": _is_live(hub, params.run)})

        return await answer(request, compute, lambda made: Response(made, media_type=MEDIA_TYPE))

    return [Route("/api/run/{run}/strip", strip), Route("/api/run/{run}/logged", numbers)]


def _is_diagnosed(hub: Hub, name: str, given: str | None) -> bool:
    """Whether the findings of an attempt, as in the address, are known; waits for nothing."""
    try:
        return hub.cache.has_any(name, ("diagnosis", attempt_of(given)))
    except UserError:  # the answer says so
        return False


def _is_live(hub: Hub, name: str) -> bool:
    """Whether hooks record the run, so that its job could log."""
    return bool(hub.run(name).info["source"] == "hooks")


def packed(strip: Strip, is_whole: bool = True) -> bytes:
    """Arrays first, last, step, ms; meta: median_ms, marks, stretches; is_whole: with these."""
    arrays = {"first": strip.first_P, "last": strip.last_P, "step": strip.step_P, "ms": strip.ms_P}
    meta = {
        "median_ms": strip.median_ms,
        "marks": [asdict(mark) for mark in strip.marks],
        "stretches": [asdict(stretch) for stretch in strip.stretches],
        "is_whole": is_whole,
    }
    return pack_arrays(arrays, meta)

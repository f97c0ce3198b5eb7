"""Data of the step-time strip on top of every page."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.routes.context import RouteContext
from app.routes.findings import attempt_of
from app.views.run.strip import Strip, strip_of
from app.web.answers import answer_prefetched
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.run import Run
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """GET api/run/{run}/strip[?attempt=N]: app.views.run.strip.Strip as binary arrays."""
    hub = context.hub

    async def strip(request: Request) -> Response:
        name, given = request.path_params["run"], request.query_params.get("attempt")

        def compute(run: Run, stop: Stop | None) -> bytes:
            attempt = attempt_of(given)
            return packed(strip_of(run, diagnosis_of(hub, name, attempt, stop), attempt, stop))

        return await answer_prefetched(request, hub, "strip", compute, MEDIA_TYPE)

    return [Route("/api/run/{run}/strip", strip)]


def packed(strip: Strip) -> bytes:
    """Arrays first, last, step, ms; meta: median_ms, marks, stretches."""
    arrays = {"first": strip.first_P, "last": strip.last_P, "step": strip.step_P, "ms": strip.ms_P}
    meta = {
        "median_ms": strip.median_ms,
        "marks": [asdict(mark) for mark in strip.marks],
        "stretches": [asdict(stretch) for stretch in strip.stretches],
    }
    return pack_arrays(arrays, meta)

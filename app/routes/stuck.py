"""GET api/run/{run}/stuck[?attempt=N]: where the ranks of a job without progress stand, as JSON.

`findings`: those of the diagnosis that say why; `now_ns`: the server's clock.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.views.stuck import stuck_of
from app.web.answers import answer
from diagnosis.detectors import dead_rank, first_error, stuck
from ingest.stopping import Stop

KINDS = (*first_error.KINDS, *stuck.KINDS, *dead_rank.KINDS)


def routes(context: RouteContext) -> list[Route]:
    """The one route of the page."""
    hub = context.hub

    def compute(params: Parameters, stop: Stop) -> dict[str, Any]:
        attempt = params.whole("attempt")
        found = hub.cache.get(
            params.run,
            ("stuck", attempt),
            lambda run, stop: stuck_of(run, attempt, stop),
            stop=stop,
        )
        diagnosis = diagnosis_of(hub, params.run, attempt, stop)
        findings = [
            {name: getattr(one, name) for name in ("kind", "title", "text", "confidence")}
            | {"next_step": one.next_step, "id": one.id}
            for one in diagnosis.findings
            if one.kind in KINDS
        ]
        return asdict(found) | {"findings": findings, "now_ns": time.time_ns()}

    async def handle(request: Request) -> Response:
        return await answer(request, lambda stop: compute(Parameters(request), stop), _plain)

    return [Route("/api/run/{run}/stuck", handle)]


def _plain(values: dict[str, Any]) -> JSONResponse:
    """Times in seconds: JavaScript cannot represent Unix ns exactly."""
    at_ns, now_ns = values.pop("at_ns"), values.pop("now_ns")
    for wait in values["waits"]:
        since_ns = wait.pop("since_ns")
        wait["for_s"] = None if at_ns is None else max((at_ns - since_ns) / 1e9, 0.0)
    age_s = None if at_ns is None else max((now_ns - at_ns) / 1e9, 0.0)
    return JSONResponse({**values, "at_s": at_ns and at_ns / 1e9, "age_s": age_s})

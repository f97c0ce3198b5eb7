"""What diagnosis says of a run, as JSON."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.analysis.not_identifiable import whole_answer
from app.routes.context import RouteContext
from app.web.answers import answer_prefetched
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """GET api/run/{run}/findings[?attempt=N]: what `rankscope diagnose --json` prints, but for the
    order of findings: the most urgent come first.
    """
    hub = context.hub

    async def findings(request: Request) -> Response:
        name, given = request.path_params["run"], request.query_params.get("attempt")

        def compute(run: Run, stop: Stop | None) -> bytes:
            attempt = attempt_of(given)
            found = diagnosis_of(hub, name, attempt, stop)
            return bytes(JSONResponse(whole_answer(found, run, attempt)).body)

        return await answer_prefetched(request, hub, "findings", compute, "application/json")

    return [Route("/api/run/{run}/findings", findings)]


def attempt_of(text: str | None) -> int | None:
    """The attempt of a query; None: the newest. Raises UserError."""
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 6:
        raise UserError(f"attempt is {text[:40]!r}; give a whole number from 0")
    return int(text)

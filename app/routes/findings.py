"""What diagnosis says of a run, as JSON."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.findings import diagnosis_of
from app.hub import Hub
from app.routes.answering import answer
from diagnosis.findings import Diagnosis
from ingest.errors import UserError
from ingest.sandbox import Stop


def routes(hub: Hub) -> list[Route]:
    """GET api/run/{run}/findings[?attempt=N]: diagnosis.findings.Diagnosis.to_json()."""

    async def findings(request: Request) -> Response:
        name = request.path_params["run"]

        def compute(stop: Stop) -> Diagnosis:
            return diagnosis_of(hub, name, attempt_of(request.query_params.get("attempt")), stop)

        return await answer(request, compute, lambda found: JSONResponse(found.to_json()))

    return [Route("/api/run/{run}/findings", findings)]


def attempt_of(text: str | None) -> int | None:
    """The attempt of a query; None: the newest. Raises UserError."""
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 6:
        raise UserError(f"attempt is {text[:40]!r}; give a whole number from 0")
    return int(text)

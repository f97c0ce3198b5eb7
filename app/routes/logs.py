"""GET api/run/{run}/logs[?attempt=N&ranks=1,2&text=T&least=error&steps=A..B]: lines of logs."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.views.logs import LEAST, log_lines
from app.web.answers import answer
from ingest.errors import UserError
from ingest.stopping import Stop

_RANKS = re.compile(r"-?\d{1,9}(?:,-?\d{1,9}){0,999}")


def routes(context: RouteContext) -> list[Route]:
    """The one route."""
    hub = context.hub

    def compute(params: Parameters, stop: Stop) -> dict[str, Any]:
        asked = (
            params.whole("attempt"),
            _ranks(params.text("ranks")),
            params.text("text") or None,
            _least(params.text("least")),
            params.pair("steps"),
        )
        return hub.cache.get(
            params.run, ("logs", *asked), lambda run, stop: log_lines(run, *asked, stop), stop=stop
        )

    async def handle(request: Request) -> Response:
        return await answer(request, lambda stop: compute(Parameters(request), stop), JSONResponse)

    return [Route("/api/run/{run}/logs", handle)]


def _ranks(text: str) -> str | None:
    if text and not _RANKS.fullmatch(text):
        raise UserError(f"ranks is {text[:40]!r}; give global ranks with commas between them")
    return text or None


def _least(text: str) -> str | None:
    if text and text not in LEAST:
        raise UserError(f"least is {text[:40]!r}; give one of {', '.join(LEAST)}")
    return text or None

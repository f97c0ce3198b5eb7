"""All runs together.

GET api/fleet[?model=M&host=H&from=DATE&until=DATE&sort=COLUMN&dir=asc|desc&page=N]: sums of the
chosen runs and one page of their table, as JSON (app/analysis/fleet/page.py). Runs without a
summary are summarised in the background meanwhile; `num_missing` says how many are left.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.fleet.board import fleet_board_of
from app.analysis.fleet.page import Choice, date_of, shown
from app.routes.context import RouteContext
from app.web.answers import answer
from diagnosis.fleet.summary import MOST_NAME
from ingest.errors import UserError

_DIRECTIONS = ("asc", "desc")


def routes(context: RouteContext) -> list[Route]:
    """The one route of the page."""
    hub = context.hub

    async def fleet(request: Request) -> Response:
        return await answer(
            request,
            lambda _stop: shown(fleet_board_of(hub).standing(), choice_of(request)),
            JSONResponse,
        )

    return [Route("/api/fleet", fleet)]


def choice_of(request: Request) -> Choice:
    """What the parameters choose; raises UserError with a sentence for invalid ones."""
    given = request.query_params
    direction, page = given.get("dir") or "desc", given.get("page") or "0"
    if direction not in _DIRECTIONS:
        raise UserError(f"dir is {direction[:40]!r}; give asc or desc")
    if not (page.isascii() and page.isdecimal() and len(page) < 9):
        raise UserError(f"page is {page[:40]!r}; give a whole number from 0")
    return Choice(
        model=given.get("model", "")[:MOST_NAME],
        host=given.get("host", "")[:MOST_NAME],
        first=date_of("from", given.get("from", "")),
        last=date_of("until", given.get("until", "")),
        sort=given.get("sort") or "lost",
        descending=direction == "desc",
        page=int(page),
    )

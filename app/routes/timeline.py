"""Data of the timeline: `/api/run/RUN/timeline` (binary tiles), `/timeline/lanes`, ..."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.timelines import Timelines
from app.routes.context import RouteContext
from app.view_state import SAFEST, View, parse_url
from app.views.timeline.area_sums import area, found, members
from app.views.timeline.lanes import choose
from app.web.answers import answer, answer_prefetched
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

_MOST_PX = 8192
_GREATEST_HASH = 2**63
"""Groups are named by a hash, the one number that is beyond what browsers count exactly."""


def routes(context: RouteContext) -> list[Route]:
    """Routes of the timeline."""
    hub = context.hub
    timelines = Timelines(hub)

    async def timeline(request: Request) -> Response:
        def compute(_run: Run, stop: Stop | None) -> bytes:
            name, view = request.path_params["run"], _view(request)
            tile = timelines.tile(name, view, _width(request), stop)
            return pack_arrays(tile.arrays, tile.meta)

        return await answer_prefetched(request, hub, "timeline", compute, MEDIA_TYPE)

    async def lanes(request: Request) -> Response:
        return await answer(request, lambda stop: _lanes(timelines, request), JSONResponse)

    async def area_sums(request: Request) -> Response:
        return await answer(request, lambda stop: _area(timelines, request, stop), JSONResponse)

    async def collective(request: Request) -> Response:
        return await answer(
            request, lambda stop: _collective(timelines, request, stop), JSONResponse
        )

    async def search(request: Request) -> Response:
        return await answer(request, lambda stop: _search(timelines, request, stop), JSONResponse)

    return [
        Route("/api/run/{run}/timeline", timeline),
        Route("/api/run/{run}/timeline/lanes", lanes),
        Route("/api/run/{run}/timeline/area", area_sums),
        Route("/api/run/{run}/timeline/collective", collective),
        Route("/api/run/{run}/timeline/search", search),
    ]


def _lanes(timelines: Timelines, request: Request) -> dict[str, object]:
    name, view = request.path_params["run"], _view(request)
    places = timelines.places(name, timelines.attempt(name, view))
    ranks = choose(places, request.query_params.get("lanes", "default"), view.rank)
    return {"ranks": ranks, "num_ranks": len(places)}


def _area(timelines: Timelines, request: Request, stop: Stop) -> dict[str, object]:
    shown = timelines.selection(request.path_params["run"], _view(request))
    return area(shown.run, shown.attempt, shown.lanes, shown.window(stop), shown.extent, stop)


def _collective(timelines: Timelines, request: Request, stop: Stop) -> dict[str, object]:
    name = request.path_params["run"]
    group, seq = _integer(request, "group", _GREATEST_HASH), _integer(request, "seq")
    if group is None or seq is None:
        raise UserError("a collective needs group=... and seq=...")
    src, dst = _integer(request, "src"), _integer(request, "dst")
    attempt = timelines.attempt(name, _view(request))
    return members(timelines.hub.run(name), attempt, group, seq, src, dst, stop)


def _search(timelines: Timelines, request: Request, stop: Stop) -> dict[str, object]:
    shown = timelines.selection(request.path_params["run"], _view(request))
    text = request.query_params.get("name", "")[:200]
    return found(shown.run, shown.attempt, shown.ranks, text, shown.extent, stop)


def _view(request: Request) -> View:
    """The query, spelled as in the address bar but for `from` and `to`; raises UserError.

    A damaged field is left out there and refused here.
    """
    view, problems = parse_url("/run/x/timeline", str(request.url.query))
    if problems:
        raise UserError(problems[0])
    begin_ns, end_ns = _integer(request, "from"), _integer(request, "to")
    return view.to(t=None if begin_ns is None or end_ns is None else (begin_ns, end_ns))


def _integer(request: Request, name: str, bound: int = SAFEST) -> int | None:
    """A field of the query between -bound and bound; raises UserError."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise UserError(f"{name}={text[:40]!r} is not a whole number")
    if abs(int(text)) >= bound:
        raise UserError(f"{name}={text} is too great; give a number between -{bound} and {bound}")
    return int(text)


def _width(request: Request) -> int:
    return min(max(_integer(request, "width") or 1200, 1), _MOST_PX)

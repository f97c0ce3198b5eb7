"""Data of the timeline: `/api/run/RUN/timeline` (binary tiles), `/timeline/lanes`, ..."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.view_state import SAFEST, View, parse_url
from app.views.timeline.area_sums import area, found, members
from app.views.timeline.lanes import MOST_AT_ONCE, Place, choose, known
from app.views.timeline.meta import attempt_for, tile_meta, window_for
from app.views.timeline.tile import tile
from app.views.timeline.tile_arrays import Tile
from app.views.timeline.window import Extent, Window, extent
from app.web.answers import answer, answer_followed
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

    async def timeline(request: Request) -> Response:
        def compute(_run: Run, stop: Stop) -> bytes:
            return _packed(_tile(hub, request, stop))

        return await answer_followed(request, hub, "timeline", compute, MEDIA_TYPE)

    async def lanes(request: Request) -> Response:
        return await answer(request, lambda stop: _lanes(hub, request), JSONResponse)

    async def area_sums(request: Request) -> Response:
        return await answer(request, lambda stop: _area(hub, request, stop), JSONResponse)

    async def collective(request: Request) -> Response:
        return await answer(request, lambda stop: _collective(hub, request, stop), JSONResponse)

    async def search(request: Request) -> Response:
        return await answer(request, lambda stop: _search(hub, request, stop), JSONResponse)

    return [
        Route("/api/run/{run}/timeline", timeline),
        Route("/api/run/{run}/timeline/lanes", lanes),
        Route("/api/run/{run}/timeline/area", area_sums),
        Route("/api/run/{run}/timeline/collective", collective),
        Route("/api/run/{run}/timeline/search", search),
    ]


class NothingYet(UserError):
    """A job that has only just begun: no mistake of whoever looks at it."""


def _packed(made: Tile) -> bytes:
    return pack_arrays(made.arrays, made.meta)


def places(hub: Hub, name: str, attempt: int) -> dict[int, Place]:
    """Ranks of an attempt with coordinates and clocks, kept until the run has news."""

    def read(run: object) -> dict[int, Place]:
        rows = hub.run(name).ask("clock_shifts", attempt=attempt).to_pylist()
        return {row["rank"]: Place(**row) for row in rows}

    return hub.cached(name, ("timeline places", attempt), read)


def _lanes(hub: Hub, request: Request) -> dict[str, object]:
    name, view = request.path_params["run"], _view(request)
    of = places(hub, name, _attempt(hub, name, view))
    chosen = choose(of, request.query_params.get("lanes", "default"), view.rank)
    return {"ranks": chosen, "num_ranks": len(of)}


@dataclass(frozen=True)
class _Asked:
    """What every request says: which attempt, which lanes."""

    run: Run
    attempt: int
    of: dict[int, Place]
    view: View
    chosen: list[int]
    have: Extent

    @property
    def lanes(self) -> list[Place]:
        """The lanes of one answer."""
        return [self.of[rank] for rank in self.chosen[:MOST_AT_ONCE]]


def _asked(hub: Hub, request: Request) -> _Asked:
    name, view = request.path_params["run"], _view(request)
    attempt = _attempt(hub, name, view)
    of = places(hub, name, attempt)
    chosen = known(of, view.ranks) if view.ranks else choose(of, "default", view.rank)
    have = hub.cached(
        name, ("timeline extent", attempt, tuple(chosen)), lambda run: extent(run, attempt, chosen)
    )
    if have is None:
        raise NothingYet(f"Rank {chosen[0]} has recorded nothing yet in attempt {attempt}.")
    return _Asked(hub.run(name), attempt, of, view, chosen, have)


def _tile(hub: Hub, request: Request, stop: Stop) -> Tile:
    name = request.path_params["run"]
    try:
        asked = _asked(hub, request)
    except NothingYet as nothing:
        return Tile({}, {"nothing": str(nothing)})
    window, made = _drawn(hub, name, asked, _width(request), stop)
    meta = tile_meta(asked.run, asked.attempt, asked.lanes, window, asked.have)
    return Tile(
        made.arrays,
        made.meta
        | meta
        | {
            "ranks": asked.chosen,
            "unknown": [r for r in asked.view.ranks if r not in asked.of],
            "state": hub.cached(name, "timeline state", lambda run: run.state),
            "num_ranks": len(asked.of),
        },
    )


def _drawn(hub: Hub, name: str, asked: _Asked, width: int, stop: Stop) -> tuple[Window, Tile]:
    """Window and what is drawn in it: the same for all ranks that share these lanes."""

    def compute(run: Run) -> tuple[Window, Tile]:
        chosen, have = asked.chosen, asked.have
        window = window_for(run, asked.attempt, chosen, asked.view, have, stop)
        return window, tile(run, asked.attempt, asked.lanes, window, width, have, stop)

    view = asked.view
    key = ("drawn tile", asked.attempt, tuple(asked.chosen), view.steps, view.t, width)
    return hub.cached(name, key, compute)


def _area(hub: Hub, request: Request, stop: Stop) -> dict[str, object]:
    asked = _asked(hub, request)
    window = window_for(asked.run, asked.attempt, asked.chosen, asked.view, asked.have, stop)
    return area(asked.run, asked.attempt, asked.lanes, window, asked.have, stop)


def _collective(hub: Hub, request: Request, stop: Stop) -> dict[str, object]:
    name = request.path_params["run"]
    group, seq = _integer(request, "group", _GREATEST_HASH), _integer(request, "seq")
    if group is None or seq is None:
        raise UserError("a collective needs group=... and seq=...")
    src, dst = _integer(request, "src"), _integer(request, "dst")
    attempt = _attempt(hub, name, _view(request))
    return members(hub.run(name), attempt, group, seq, src, dst, stop)


def _search(hub: Hub, request: Request, stop: Stop) -> dict[str, object]:
    asked = _asked(hub, request)
    text = request.query_params.get("name", "")[:200]
    return found(asked.run, asked.attempt, asked.chosen, text, asked.have, stop)


def _view(request: Request) -> View:
    """The query, spelled as in the address bar but for `from` and `to`; raises UserError.

    A damaged field is left out there and refused here.
    """
    view, problems = parse_url("/run/x/timeline", str(request.url.query))
    if problems:
        raise UserError(problems[0])
    begin_ns, end_ns = _integer(request, "from"), _integer(request, "to")
    return view.to(t=None if begin_ns is None or end_ns is None else (begin_ns, end_ns))


def _attempt(hub: Hub, name: str, view: View) -> int:
    key = ("timeline attempt", view.attempt, view.steps)
    return hub.cached(name, key, lambda run: attempt_for(run, view))


def _integer(request: Request, name: str, bound: int = SAFEST) -> int | None:
    """A field of the query between -bound and bound; raises UserError."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise UserError(f"{name}={text[:40]!r} is no whole number")
    if abs(int(text)) >= bound:
        raise UserError(f"{name}={text} is too great; give a number between -{bound} and {bound}")
    return int(text)


def _width(request: Request) -> int:
    return min(max(_integer(request, "width") or 1200, 1), _MOST_PX)

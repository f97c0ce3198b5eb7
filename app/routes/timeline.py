"""Data of the timeline: `/api/run/RUN/timeline` (binary tiles), `/timeline/lanes`, ..."""

from __future__ import annotations

import re
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.arrays import MEDIA_TYPE, pack_arrays
from app.hub import Hub
from app.links import parse_url
from app.routes.answering import answer
from app.views.lanes import MOST_AT_ONCE, Place, choose, known
from app.views.timeline import (
    Extent,
    Tile,
    Window,
    default_window,
    extent,
    is_relative,
    tile,
    window_of_steps,
)
from ingest.errors import UserError
from ingest.sandbox import Stop

_MOST_PX = 8192


def routes(hub: Hub) -> list[Route]:
    """Routes of the timeline."""

    async def timeline(request: Request) -> Response:
        return await answer(request, lambda stop: _tile(hub, request, stop), _packed)

    async def lanes(request: Request) -> Response:
        return await answer(request, lambda stop: _lanes(hub, request), JSONResponse)

    return [
        Route("/api/run/{run}/timeline", timeline),
        Route("/api/run/{run}/timeline/lanes", lanes),
    ]


def _packed(made: Tile) -> Response:
    return Response(pack_arrays(made.arrays, made.meta), media_type=MEDIA_TYPE)


def places(hub: Hub, name: str, attempt: int) -> dict[int, Place]:
    """Ranks of an attempt with coordinates and clocks, kept until the run has news."""

    def read(run: object) -> dict[int, Place]:
        rows = hub.run(name).ask("clock_shifts", attempt=attempt).to_pylist()
        return {row["rank"]: Place(**row) for row in rows}

    return hub.cached(name, ("timeline places", attempt), read)


def _lanes(hub: Hub, request: Request) -> dict[str, object]:
    name, attempt = request.path_params["run"], _attempt(hub, request)
    of = places(hub, name, attempt)
    chosen = choose(of, request.query_params.get("lanes", "default"), _integer(request, "rank"))
    return {"ranks": chosen, "num_ranks": len(of)}


def _tile(hub: Hub, request: Request, stop: Stop) -> Tile:
    name = request.path_params["run"]
    run, attempt = hub.run(name), _attempt(hub, request)
    of = places(hub, name, attempt)
    # the same parsing as the address bar's: a bad field is left out there, refused here
    view, problems = parse_url("/run/x/timeline", str(request.url.query))
    if problems:
        raise UserError(problems[0])
    chosen = known(of, view.ranks) if view.ranks else choose(of, "default", view.rank)
    lanes = [of[rank] for rank in chosen[:MOST_AT_ONCE]]
    have = hub.cached(
        name, ("timeline extent", attempt, tuple(chosen)), lambda run: extent(run, attempt, chosen)
    )
    meta: dict[str, object] = {
        "ranks": chosen, "unknown": [rank for rank in view.ranks if rank not in of],
        "lanes": [_described(place) for place in lanes], "attempt": attempt,
        "t0_ns": str(run.info["created_ns"]), "clock": run.info["clock"],
        "state": run.state, "num_ranks": len(of),
        "extent": None if have is None else asdict(have),
    }  # fmt: skip
    if have is None:
        raise UserError(f"rank {chosen[0]} has recorded nothing yet in attempt {attempt}")
    window = _window(hub, request, attempt, chosen, have, stop)
    made = tile(run, attempt, lanes, window, _width(request), stop)
    meta |= {"from": window.begin_ns, "to": window.end_ns, "relative_step": window.step}
    return Tile(made.arrays, made.meta | meta)


def _described(place: Place) -> dict[str, object]:
    return {
        "rank": place.rank, "label": place.label, "host": place.host, "err_ns": place.err_ns,
        "aligned": place.shift_min_ns is not None,
        "place": [place.pp, place.dp, place.cp, place.tp],
    }  # fmt: skip


def _window(
    hub: Hub, request: Request, attempt: int, ranks: list[int], have: Extent, stop: Stop
) -> Window:
    run = hub.run(request.path_params["run"])
    view, _ = parse_url("/run/x/timeline", str(request.url.query))
    begin_ns, end_ns = _integer(request, "from"), _integer(request, "to")
    if begin_ns is not None and end_ns is not None:
        if end_ns <= begin_ns:
            raise UserError("the window of time ends before it begins")
        step = None
        if is_relative(run):
            step = view.steps[1] if view.steps else have.finished_step or have.last_step
        return Window(begin_ns, end_ns, step)
    if view.steps is not None:
        return window_of_steps(run, attempt, ranks, view.steps, stop)
    return default_window(run, attempt, ranks, have, stop)


def _attempt(hub: Hub, request: Request) -> int:
    given = _integer(request, "attempt")
    return hub.run(request.path_params["run"]).newest_attempt if given is None else given


def _integer(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise UserError(f"{name}={text[:40]!r} is no whole number")
    return int(text)


def _width(request: Request) -> int:
    return min(max(_integer(request, "width") or 1200, 1), _MOST_PX)

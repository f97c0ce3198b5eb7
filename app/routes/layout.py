"""The layout of a run: what it is, what another would mean, and correcting it by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.settings import Role
from app.views.ranks.layout_preview import layout_preview
from app.web.answers import answer, body_of
from app.web.caller import require
from ingest import layout_correction
from ingest.errors import UserError
from ingest.layout_correction import ORDER, check_fits, layout_of
from ingest.run import Run
from ingest.stopping import Stop
from ingest.summary import layout_from
from trace_hooks.layout import AXES, EXPERT_AXES, ParallelLayout

INDEXED_S = 20.0
"""How long the answer to a correction waits for the index to follow it."""
_MOST_BYTES = 4096
_LONGEST_SIZE = 9


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a correction."""

    sizes: dict[str, int]
    order: str = ORDER


def routes(context: RouteContext) -> list[Route]:
    """GET, POST and DELETE api/run/RUN/layout; GET ?tp=2&dp=4&order=dp-tp says what it would mean.

    POST takes {"sizes": {axis: size}, "order": axes slowest first}; it and DELETE, which takes the
    correction back, need the role uploader.
    """
    hub = context.hub
    of = _Layouts(hub)
    path = "/api/run/{run}/layout"
    return [
        Route(path, of.told, methods=["GET"]),
        Route(path, of.correct, methods=["POST"]),
        Route(path, of.undo, methods=["DELETE"]),
    ]


class _Layouts:
    """What the routes do."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def told(self, request: Request) -> Response:
        """The layout as it is, or what the one asked for would mean."""
        name, given = request.path_params["run"], dict(request.query_params)

        def compute(_stop: Stop) -> dict[str, Any]:
            run = self._hub.run(name)
            return _preview(run, given) if given else _told(run)

        return await answer(request, compute, JSONResponse)

    async def correct(self, request: Request) -> Response:
        """Have the ranks stand in another layout."""
        require(request, Role.uploader)
        asked = await _asked(request)
        layout = layout_of(asked.sizes, asked.order)
        return await self._change(request, lambda run: layout_correction.correct(run, layout))

    async def undo(self, request: Request) -> Response:
        """Take a correction back."""
        require(request, Role.uploader)
        return await self._change(request, layout_correction.undo)

    async def _change(self, request: Request, change: Callable[[Run], object]) -> Response:
        """Answers once the index follows: whoever asks from then on sees it."""
        name = request.path_params["run"]

        def compute(_stop: Stop) -> dict[str, Any]:
            change(self._hub.run(name))
            is_indexed = self._hub.catch_up(name, INDEXED_S)
            return {**_told(self._hub.run(name)), "is_indexed": is_indexed}

        return await answer(request, compute, JSONResponse)


async def _asked(request: Request) -> _Asked:
    """The body, checked; raises UserError."""
    too_long = f"a layout takes no more than {_MOST_BYTES} bytes"
    body = await body_of(request, _MOST_BYTES, too_long)
    try:
        return msgspec.json.decode(body, type=_Asked)
    except msgspec.DecodeError as error:
        raise UserError(f"this is no layout: {error}") from None


def _told(run: Run) -> dict[str, Any]:
    """The layout as it is, and what a form needs to ask for another."""
    layout = run.layout()
    sizes = {axis: layout.size(axis) if layout else 1 for axis in (*AXES, *EXPERT_AXES)}
    ranks = run.ranks_as_read
    world_size = max((info["world_size"] for info in ranks), default=-1)
    return {
        "layout": None if layout is None else str(layout),
        "layout_from": layout_from(run),
        "sizes": sizes,
        "order": _order(layout),
        "world_size": world_size if world_size > 0 else None,
        "num_ranks": len({info["rank"] for info in ranks}),
        "refusal": layout_correction.refusal(run),
    }


def _order(layout: ParallelLayout | None) -> str:
    return "-".join(name for name, _ in layout.axes) if layout else ORDER


def _preview(run: Run, given: Mapping[str, str]) -> dict[str, Any]:
    sizes = {axis: _size(axis, text) for axis, text in given.items() if axis != "order"}
    layout = layout_of(sizes, given.get("order", ORDER))
    check_fits(layout, run.ranks_as_read)
    return asdict(layout_preview(run, layout))


def _size(axis: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_SIZE:
        raise UserError(f"axis {axis[:20]} has size {text[:20]!r}; give a whole number from 1")
    return int(text)

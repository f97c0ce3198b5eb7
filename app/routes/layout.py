"""The layout of a run: the current one, a preview of another, and manual corrections."""

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
"""How long the answer to a correction waits until the index has caught up."""
_MOST_BYTES = 4096
_LONGEST_SIZE = 9


class _Correction(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a correction's request."""

    sizes: dict[str, int]
    order: str = ORDER


def routes(context: RouteContext) -> list[Route]:
    """GET, POST and DELETE api/run/RUN/layout; GET ?tp=2&dp=4&order=dp-tp previews that layout.

    POST takes {"sizes": {axis: size}, "order": axes slowest first}; POST and DELETE, which undoes
    the correction, need the role uploader.
    """
    hub = context.hub
    layouts = _Layouts(hub)
    path = "/api/run/{run}/layout"
    return [
        Route(path, layouts.describe, methods=["GET"]),
        Route(path, layouts.correct, methods=["POST"]),
        Route(path, layouts.undo, methods=["DELETE"]),
    ]


class _Layouts:
    """The handlers of the routes."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def describe(self, request: Request) -> Response:
        """The current layout, or a preview of the requested one."""
        name, parameters = request.path_params["run"], dict(request.query_params)

        def compute(_stop: Stop) -> dict[str, Any]:
            run = self._hub.run(name)
            return _preview(run, parameters) if parameters else _described(run)

        return await answer(request, compute, JSONResponse)

    async def correct(self, request: Request) -> Response:
        """Correct the layout."""
        require(request, Role.uploader)
        correction = await _correction(request)
        layout = layout_of(correction.sizes, correction.order)
        return await self._change(request, lambda run: layout_correction.correct(run, layout))

    async def undo(self, request: Request) -> Response:
        """Undo a correction."""
        require(request, Role.uploader)
        return await self._change(request, layout_correction.undo)

    async def _change(self, request: Request, change: Callable[[Run], object]) -> Response:
        """Answer once the index has caught up: later requests see the change."""
        if self._hub.read_only:
            raise UserError(self._hub.read_only)
        name = request.path_params["run"]

        def compute(_stop: Stop) -> dict[str, Any]:
            change(self._hub.run(name))
            is_indexed = self._hub.catch_up(name, INDEXED_S)
            return {**_described(self._hub.run(name)), "is_indexed": is_indexed}

        return await answer(request, compute, JSONResponse)


async def _correction(request: Request) -> _Correction:
    """The body, checked; raises UserError."""
    too_long = f"a layout takes no more than {_MOST_BYTES} bytes"
    body = await body_of(request, _MOST_BYTES, too_long)
    try:
        return msgspec.json.decode(body, type=_Correction)
    except msgspec.DecodeError as error:
        raise UserError(f"this is not a layout: {error}") from None


def _described(run: Run) -> dict[str, Any]:
    """The current layout, and what the form for another one needs."""
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


def _preview(run: Run, parameters: Mapping[str, str]) -> dict[str, Any]:
    sizes = {axis: _size(axis, text) for axis, text in parameters.items() if axis != "order"}
    layout = layout_of(sizes, parameters.get("order", ORDER))
    check_fits(layout, run.ranks_as_read)
    return asdict(layout_preview(run, layout))


def _size(axis: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_SIZE:
        raise UserError(f"axis {axis[:20]} has size {text[:20]!r}; give a whole number from 1")
    return int(text)

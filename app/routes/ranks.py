"""Data of the grid, the heat maps and the table of ranks.

ranks/layout    the ranks and their coordinates
ranks/grid      one value per rank
ranks/heat      the heat map, pooled to the requested size; if it is too large for memory, the
                newest steps or those of `near`
ranks/hosts     the heat map of hosts
ranks/cell      the cell that gives a block of the heat map its colour
ranks/worst     the heat map's worst cells, as rows
ranks/table     one page of the table of ranks
ranks/metrics   the list of metrics
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.metric_maps import Maps
from app.analysis.page_scope import PageScope, page_scope
from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.runs.policies import max_age
from app.view_state import View
from app.views.ranks import grid as grids
from app.views.ranks import heat_map as heat_maps
from app.views.ranks import host_map as host_maps
from app.views.ranks import rank_table as tables
from app.views.ranks.empty_reason import empty_reason
from app.views.ranks.metric_matrix import Cells, Steps
from app.views.ranks.rank_places import places
from app.views.ranks.scales import DEFAULT, METRICS, Metric, metric_of
from app.web.answers import answer, answer_prefetched
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

Pair = tuple[int, int]
Compute = Callable[["Parameters", Stop | None], Any]

_PATH = "/api/run/{run}/ranks/"
_STATES_EVERY_S = 1.0
NO_STEPS = (0, -1)
"""Window of a run without finished steps."""


class Parameters:
    """The parameters of a request; raises UserError with a sentence for invalid ones."""

    def __init__(self, request: Request) -> None:
        self.run: str = request.path_params["run"]
        self._given = request.query_params

    def text(self, name: str, default: str = "", most: int = 200) -> str:
        """A parameter as it is, its first `most` characters."""
        return self._given.get(name, default)[:most]

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number from 0."""
        text = self._given.get(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise UserError(f"{name} is {text[:40]!r}; give a whole number from 0")
        return int(text)

    def pair(self, name: str) -> Pair | None:
        """FIRST..LAST, both included."""
        text = self._given.get(name)
        if not text:
            return None
        low, dots, high = text.partition("..")
        if not (dots and all(p.isascii() and p.isdecimal() and len(p) < 16 for p in (low, high))):
            raise UserError(f"{name} is {text[:40]!r}; give FIRST..LAST")
        if int(high) < int(low):
            raise UserError(f"{name} is {text[:40]!r}, which ends before it begins")
        return int(low), int(high)


class _Answers:
    """The answers of this module's routes, by name."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._maps = Maps(hub)

    def layout(self, params: Parameters, stop: Stop) -> bytes:
        ranks = places(self._hub.run(params.run), params.whole("attempt"), stop)
        return pack_arrays(grids.layout_arrays(ranks), grids.layout_meta(ranks))

    def grid(self, params: Parameters, stop: Stop) -> bytes:
        grid = self._values(params, metric_of(params.text("metric")), stop)
        scope = self._scope(params, stop)
        meta = grid.meta() | {"page_steps": grid.steps or scope.steps, "why": scope.why}
        return pack_arrays(grid.arrays(), meta | self._nothing_in_grid(params, grid))

    def hosts(self, params: Parameters, stop: Stop) -> bytes:
        grid = self._values(params, metric_of(params.text("metric")), stop)
        hosts = host_maps.host_map(grid, params.whole("height", 600) or 1)
        meta = {**hosts.meta(), **grid.meta()} | self._nothing_in_grid(params, grid)
        return pack_arrays(hosts.arrays(), meta)

    def heat(self, params: Parameters, stop: Stop) -> bytes:
        part = None
        if params.text("quick"):
            metric, attempt = metric_of(params.text("metric")), params.whole("attempt")
            part = self._maps.part(params.run, metric, attempt, stop)
        whole, is_cut = (part, False) if part else self._whole(params, stop)
        heat_map = heat_maps.heat_map(
            whole,
            params.text("order", "rank"),
            params.pair("rows"),
            params.pair("steps"),
            params.whole("height", 600) or 0,
            params.whole("width", 1200) or 0,
        )
        meta = {"legend": whole.legend, "is_part": part is not None, "is_cut": is_cut}
        meta["compared_from"] = whole.compared_from
        if not heat_map.code_HW.any() and not whole.code_RS.any():
            meta |= self._nothing(params, None, whole.has_values)
        return pack_arrays(heat_map.arrays(), {**heat_map.meta(), **meta})

    def _nothing_in_grid(self, params: Parameters, grid: grids.Grid) -> dict[str, str]:
        if grid.code_R.any():
            return {}
        return self._nothing(params, params.pair("steps"), grid.steps is not None)

    def _nothing(self, params: Parameters, steps: Steps | None, has_values: bool) -> dict[str, str]:
        run, metric = self._hub.run(params.run), metric_of(params.text("metric"))
        return {"nothing": empty_reason(run, metric, params.whole("attempt"), steps, has_values)}

    def cell(self, params: Parameters, stop: Stop) -> Any:
        whole, _ = self._whole(params, stop)
        order, rows, steps = params.text("order", "rank"), params.pair("rows"), params.pair("steps")
        cell = heat_maps.furthest_cell(whole, order, rows, steps)
        return None if cell is None else asdict(cell)

    def worst(self, params: Parameters, stop: Stop) -> Any:
        cells = heat_maps.worst_cells(self._whole(params, stop)[0], params.pair("steps"))
        return {"cells": [asdict(cell) for cell in cells]}

    def table(self, params: Parameters, stop: Stop) -> Any:
        attempt = params.whole("attempt")
        steps = self._steps(params, stop)

        def compute(run: Run, stop: Stop | None) -> Any:
            slow = self._values(params, METRICS[DEFAULT], stop)
            return tables.rank_rows(run, attempt, steps, slow, stop)

        key = ("rank table", attempt, steps)
        rows = self._hub.cache.get(params.run, key, compute, stop=stop)
        return tables.page(
            rows,
            self._states(params.run),
            params.text("sort", "slowdown"),
            params.text("dir", "desc"),
            params.text("filter"),
            params.whole("page", 0) or 0,
            params.whole("rank"),
        ) | {"steps": None if steps == NO_STEPS else list(steps)}

    def _states(self, run: str) -> dict[int, str]:
        return self._hub.cache.get(
            run, "rank states", lambda run, _: run.rank_states(), max_age(_STATES_EVERY_S)
        )

    def metrics(self, _params: Parameters, _stop: Stop) -> Any:
        return {"metrics": [metric.to_json() for metric in METRICS.values()]}

    def _values(self, params: Parameters, metric: Metric, stop: Stop) -> grids.Grid:
        attempt = params.whole("attempt")
        steps = self._steps(params, stop)

        def compute(_run: Run, stop: Stop | None) -> grids.Grid:
            return grids.grid(self._maps.some(params.run, metric, attempt, steps, stop))

        key = ("grid of ranks", metric.name, attempt, steps)
        return self._hub.cache.get(params.run, key, compute, stop=stop)

    def _steps(self, params: Parameters, stop: Stop) -> Steps:
        return self._scope(params, stop).steps or NO_STEPS

    def _scope(self, params: Parameters, stop: Stop) -> PageScope:
        finding = params.text("finding") or None
        view = View(params.run, attempt=params.whole("attempt"), finding=finding)
        return page_scope(self._hub, view.to(steps=params.pair("steps")), stop)

    def _whole(self, params: Parameters, stop: Stop) -> tuple[Cells, bool]:
        metric, attempt = metric_of(params.text("metric")), params.whole("attempt")
        steps = params.pair("steps") or params.pair("near")
        return self._maps.whole(params.run, metric, attempt, steps, stop)


def routes(context: RouteContext) -> list[Route]:
    """The routes of this module."""
    hub = context.hub
    answers = _Answers(hub)
    prefetched = (answers.layout, answers.grid, answers.heat, answers.hosts)
    plain = (answers.cell, answers.worst, answers.table, answers.metrics)
    return [
        *(_prefetched(hub, compute.__name__, compute) for compute in prefetched),
        *(_plain(compute.__name__, compute) for compute in plain),
    ]


def _prefetched(hub: Hub, name: str, compute: Callable[[Parameters, Stop], bytes]) -> Route:
    async def handle(request: Request) -> Response:
        if request.query_params.get("quick"):  # a part, until the whole map is available
            return await answer(request, lambda stop: compute(Parameters(request), stop), _arrays)
        return await answer_prefetched(
            request,
            hub,
            f"ranks/{name}",
            lambda _run, stop: compute(Parameters(request), stop),
            MEDIA_TYPE,
        )

    return Route(_PATH + name, handle)


def _plain(name: str, compute: Compute) -> Route:
    async def handle(request: Request) -> Response:
        return await answer(request, lambda stop: compute(Parameters(request), stop), JSONResponse)

    return Route(_PATH + name, handle)


def _arrays(content: bytes) -> Response:
    return Response(content, media_type=MEDIA_TYPE)

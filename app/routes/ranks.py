"""Data of the grid, the heat maps and the table of ranks.

ranks/layout    who the ranks are and where they stand
ranks/grid      one value per rank
ranks/heat      the heat map, pooled to the size asked for; of one too large to be held, the newest
                steps or those of `near`
ranks/hosts     the heat map of hosts
ranks/cell      the cell a block of the heat map has its colour from
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

from app.arrays import MEDIA_TYPE, pack_arrays
from app.hub import Hub
from app.rank_maps import Maps
from app.routes.answering import answer
from app.views import grid as grids
from app.views import heat_map as heat_maps
from app.views import host_map as host_maps
from app.views import rank_table as tables
from app.views.cells import Cells, Steps, last_steps
from app.views.places import places
from app.views.scales import DEFAULT, METRICS, Metric, metric_of
from ingest.errors import UserError
from ingest.sandbox import Stop
from ingest.store import Run

Pair = tuple[int, int]
Compute = Callable[["Asked", Stop], Any]

NO_STEPS = (0, -1)
"""Window of a run without a finished step."""


class Asked:
    """The parameters of a request; raises UserError with a sentence for damaged ones."""

    def __init__(self, request: Request) -> None:
        self.run: str = request.path_params["run"]
        self._given = request.query_params

    def text(self, name: str, default: str = "") -> str:
        """A parameter as it is."""
        return self._given.get(name, default)[:200]

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


def routes(hub: Hub) -> list[Route]:
    """The routes of this module."""
    maps = Maps(hub)

    def layout(asked: Asked, stop: Stop) -> bytes:
        attempt = asked.whole("attempt")

        def compute(run: Run) -> bytes:
            at = places(run, attempt, stop)
            return pack_arrays(grids.layout_arrays(at), grids.layout_meta(at))

        return hub.cached(asked.run, ("layout of ranks", attempt), compute)

    def values(asked: Asked, stop: Stop) -> grids.Grid:
        return values_of(asked, metric_of(asked.text("metric")), stop)

    def values_of(asked: Asked, metric: Metric, stop: Stop) -> grids.Grid:
        attempt = asked.whole("attempt")
        steps = steps_of(asked, attempt)
        key = "grid of ranks", metric.name, attempt, steps
        return hub.cached(
            asked.run, key,
            lambda _run: grids.grid(maps.some(asked.run, metric, attempt, steps, stop)),
        )  # fmt: skip

    def steps_of(asked: Asked, attempt: int | None) -> Steps:
        return asked.pair("steps") or last_steps(hub.run(asked.run), attempt) or NO_STEPS

    def grid(asked: Asked, stop: Stop) -> bytes:
        found = values(asked, stop)
        return pack_arrays(found.arrays(), found.meta())

    def hosts(asked: Asked, stop: Stop) -> bytes:
        found = values(asked, stop)
        shown = host_maps.host_map(found, asked.whole("height", 600) or 1)
        return pack_arrays(shown.arrays(), {**shown.meta(), **found.meta()})

    def whole_of(asked: Asked, stop: Stop) -> tuple[Cells, bool]:
        metric, attempt = metric_of(asked.text("metric")), asked.whole("attempt")
        steps = asked.pair("steps") or asked.pair("near")
        return maps.whole(asked.run, metric, attempt, steps, stop)

    def heat(asked: Asked, stop: Stop) -> bytes:
        part = None
        if asked.text("quick"):
            metric, attempt = metric_of(asked.text("metric")), asked.whole("attempt")
            part = maps.part(asked.run, metric, attempt, stop)
        whole, is_cut = (part, False) if part else whole_of(asked, stop)
        found = heat_maps.heat_map(
            whole, asked.text("order", "rank"), asked.pair("rows"), asked.pair("steps"),
            asked.whole("height", 600) or 0, asked.whole("width", 1200) or 0,
        )  # fmt: skip
        meta = {
            **found.meta(),
            "legend": whole.legend,
            "is_part": part is not None,
            "is_cut": is_cut,
        }
        return pack_arrays(found.arrays(), meta)

    def cell(asked: Asked, stop: Stop) -> Any:
        found = heat_maps.furthest_cell(
            whole_of(asked, stop)[0],
            asked.text("order", "rank"),
            asked.pair("rows"),
            asked.pair("steps"),
        )
        return None if found is None else asdict(found)

    def worst(asked: Asked, stop: Stop) -> Any:
        found = heat_maps.worst_cells(whole_of(asked, stop)[0], asked.pair("steps"))
        return {"cells": [asdict(one) for one in found]}

    def table(asked: Asked, stop: Stop) -> Any:
        run, attempt = hub.run(asked.run), asked.whole("attempt")
        steps = steps_of(asked, attempt)
        key = ("rank table", attempt, steps)
        rows = hub.cached(
            asked.run,
            key,
            lambda run: tables.rank_rows(
                run, attempt, steps, values_of(asked, METRICS[DEFAULT], stop), stop
            ),
        )
        return tables.page(
            rows, run.rank_states(), asked.text("sort", "slowdown"), asked.text("dir", "desc"),
            asked.text("filter"), asked.whole("page", 0) or 0, asked.whole("rank"),
        ) | {"steps": None if steps == NO_STEPS else list(steps)}  # fmt: skip

    def metrics(asked: Asked, stop: Stop) -> Any:
        return {"metrics": [metric.to_json() for metric in METRICS.values()]}

    binary: dict[str, Compute] = {"layout": layout, "grid": grid, "heat": heat, "hosts": hosts}
    plain: dict[str, Compute] = {"cell": cell, "worst": worst, "table": table, "metrics": metrics}
    return [
        *(_route(name, compute, _arrays) for name, compute in binary.items()),
        *(_route(name, compute, JSONResponse) for name, compute in plain.items()),
    ]


def _route(name: str, compute: Compute, respond: Callable[[Any], Response]) -> Route:
    async def handle(request: Request) -> Response:
        return await answer(request, lambda stop: compute(Asked(request), stop), respond)

    return Route(f"/api/run/{{run}}/ranks/{name}", handle)


def _arrays(content: bytes) -> Response:
    return Response(content, media_type=MEDIA_TYPE)

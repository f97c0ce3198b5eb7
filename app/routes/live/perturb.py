"""Data of the view Perturb of the page Model, and which ranks of a run are connected.

model/perturbations   what was perturbed, in every attempt, according to the ranks' marks
model/captures        marks of kernel captures, newest first (`attempt`)
model/losses          loss over the steps (`attempt`, `steps=FIRST..LAST`, `width`)
connected?run=RUN     summary of the connected ranks: what they have, allow and are requested to do

None of this is content: every role may see it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.live.commands import layers_of
from app.live.connected_rank import ConnectedRank
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.policies import STALE_WHILE_REVALIDATE
from app.settings import Role
from app.view_state import format_ranks
from app.views.model.losses import logged_losses, losses
from app.views.model.perturbations import as_json, recorded
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from app.web.caller import ROLE
from ingest.errors import UserError
from ingest.stopping import Stop
from trace_hooks.protocol.perturbations import Perturbation

_PATH = "/api/run/{run}/model/"
_MOST_WIDE = 20_000
_MOST_CAPTURES = 200
_NO_STORE = {"Cache-Control": "no-store"}


def routes(context: RouteContext) -> list[BaseRoute]:
    """The routes of this module."""
    hub, jobs = context.hub, context.jobs

    def perturbed(params: Parameters, stop: Stop) -> Response:
        run = hub.run(params.run)
        marks = hub.cache.get(params.run, "perturbations", recorded, STALE_WHILE_REVALIDATE, stop)
        shown = as_json(marks, run)
        content = {"perturbations": shown, "attempts": run.attempts, "state": run.state}
        return JSONResponse(content, headers=_NO_STORE)

    def captures(params: Parameters, stop: Stop) -> Response:
        rows = (
            hub.run(params.run).ask("marks", attempt=params.whole("attempt"), stop=stop).to_pylist()
        )
        marks = [row for row in rows if row["kind"] == "kernel_capture"][-_MOST_CAPTURES:]
        shown = [{name: row[name] for name in ("attempt", "rank", "step", "text")} for row in marks]
        return JSONResponse({"captures": shown[::-1]}, headers=_NO_STORE)

    def loss(params: Parameters, stop: Stop) -> Response:
        attempt, width = params.whole("attempt"), params.whole("width", 1200) or 0
        if not 0 < width <= _MOST_WIDE:
            raise UserError(f"width is {width}; give 1 to {_MOST_WIDE}")
        logged = hub.cache.get(
            params.run,
            ("losses", attempt),
            lambda run, stop: logged_losses(run, attempt, stop),
            STALE_WHILE_REVALIDATE,
            stop,
        )
        made = pack_arrays(*losses(logged, params.pair("steps"), width))
        return Response(made, media_type=MEDIA_TYPE, headers=_NO_STORE)

    async def connected(request: Request) -> Response:
        run = jobs.ranks.runs.get(request.query_params.get("run", ""))
        role: Role | None = request.scope.get(ROLE)
        may_ask = role is not None and role >= Role.operator
        summary = _summary(run.connected if run else [])
        return JSONResponse({"may_ask": may_ask, **summary}, headers=_NO_STORE)

    return [
        _route("perturbations", perturbed),
        _route("captures", captures),
        _route("losses", loss),
        Route("/api/connected", connected),
    ]


def _route(name: str, compute: Any) -> Route:
    async def handle(request: Request) -> Response:
        return await answer(
            request, lambda stop: compute(Parameters(request), stop), lambda made: made
        )

    return Route(_PATH + name, handle)


def _summary(ranks: list[ConnectedRank]) -> dict[str, Any]:
    """Of connected ranks: which they are, what they have, allow and are requested to do."""
    requested: dict[Perturbation, list[int]] = defaultdict(list)
    for rank in ranks:
        for perturbation in rank.perturbations:
            requested[perturbation].append(rank.hello.rank)
    heads = [count for rank in ranks if type(count := rank.hello.what.get("heads")) is int]
    allowing = [rank.hello.rank for rank in ranks if rank.hello.allow_perturbation]
    return {
        "connected": len(ranks),
        "world_size": max((rank.hello.world_size for rank in ranks), default=0),
        "ranks": format_ranks(rank.hello.rank for rank in ranks),
        "allow_perturbation": format_ranks(allowing),
        "step": max((rank.step for rank in ranks), default=None),
        "layers": sorted({layer for rank in ranks for layer in layers_of(rank)}),
        "heads": max(heads, default=None),
        "asked": [
            {
                "perturbation": perturbation.to_json(),
                "text": perturbation.text,
                "ranks": format_ranks(sorted(perturbed)),
            }
            for perturbation, perturbed in requested.items()
        ],
    }

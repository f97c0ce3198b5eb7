"""What the page Machines asks for.

GET api/run/{run}/machines[?attempt=N&steps=A..B]          hosts x metrics, binary
GET api/run/{run}/machines/ports?metric=M[&attempt,steps]  hosts x ports of a metric, binary
GET api/run/{run}/machines/host?host=H[&attempt&t=A..B]    metrics of a host over time, JSON
GET api/run/{run}/machines/host?rank=R[&attempt&t=A..B]    the same of a rank's host
GET api/run/{run}/machines/changes[?attempt]               what changed, what was unreadable, JSON
GET api/run/{run}/machines/telling[?attempt]               the few changes that the overview states

Times (t) are ns since the run's t0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.analysis.machine_samples import NEW_EVERY_S, telling_of
from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.policies import min_age
from app.views.machines.changes import host_of_rank, ranks_of_devices
from app.views.machines.host_map import host_map, port_map
from app.views.machines.series import host_series
from app.views.machines.telling_changes import changes_answer
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.telemetry.names import METRICS


def routes(context: RouteContext) -> list[Route]:
    """The four routes of the page, and that of the overview."""
    hub = context.hub

    def cached(params: Parameters, key: tuple[Any, ...], make: Any, stop: Stop) -> Any:
        return hub.cache.get(
            params.run, ("machines", *key), make, policy=min_age(NEW_EVERY_S), stop=stop
        )

    def attempt_of(params: Parameters, run: Run) -> int:
        attempt = params.whole("attempt")
        return run.newest_attempt if attempt is None else attempt

    def whole_map(params: Parameters, stop: Stop) -> bytes:
        steps, given = params.pair("steps"), params.whole("attempt")

        def make(run: Run, stop: Stop) -> bytes:
            attempt = attempt_of(params, run)
            found = host_map(run, attempt, steps, stop)
            ranks = ranks_of_devices(run, attempt)
            of_hosts = [ranks.get((host, "host"), []) for host in found.hosts]
            return pack_arrays(found.arrays(), found.meta() | {"ranks": of_hosts})

        return bytes(cached(params, ("map", given, steps), make, stop))

    def ports(params: Parameters, stop: Stop) -> bytes:
        steps, given, metric = params.pair("steps"), params.whole("attempt"), params.text("metric")
        if metric not in METRICS:
            raise UserError(f"metric is {metric[:40]!r}; give a metric of host_metrics")

        def make(run: Run, stop: Stop) -> bytes:
            found = port_map(run, attempt_of(params, run), metric, steps, stop)
            return pack_arrays(found.arrays(), found.meta())

        return bytes(cached(params, ("ports", given, metric, steps), make, stop))

    def one_host(params: Parameters, stop: Stop) -> dict[str, Any]:
        given, host, rank = params.whole("attempt"), params.text("host"), params.whole("rank")
        window = params.pair("t")

        def make(run: Run, stop: Stop) -> dict[str, Any]:
            attempt, t0_ns = attempt_of(params, run), run.info["created_ns"]
            window_ns = None if window is None else (t0_ns + window[0], t0_ns + window[1])
            name = host if rank is None else host_of_rank(run, attempt, rank)
            return host_series(run, attempt, name, window_ns, stop)

        return dict(cached(params, ("host", given, host, rank, window), make, stop))

    def what_changed(params: Parameters, stop: Stop) -> dict[str, Any]:
        given = params.whole("attempt")

        def make(run: Run, stop: Stop) -> dict[str, Any]:
            return changes_answer(run, attempt_of(params, run), stop)

        return dict(cached(params, ("changes", given), make, stop))

    def telling(params: Parameters, stop: Stop) -> dict[str, Any]:
        return telling_of(hub, params.run, params.whole("attempt"), stop)

    def binary(content: bytes) -> Response:
        return Response(content, media_type=MEDIA_TYPE)

    def route(path: str, compute: Callable[[Parameters, Stop], Any], respond: Any) -> Route:
        async def handle(request: Request) -> Response:
            return await answer(request, lambda stop: compute(Parameters(request), stop), respond)

        return Route(f"/api/run/{{run}}/machines{path}", handle)

    return [
        route("", whole_map, binary),
        route("/ports", ports, binary),
        route("/host", one_host, JSONResponse),
        route("/changes", what_changed, JSONResponse),
        route("/telling", telling, JSONResponse),
    ]

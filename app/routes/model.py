"""Data of the page Model.

model/recorded    which tensors have statistics, which statistics, and their alarm levels
model/health      one statistic of one tensor, layers x steps, pooled to the requested size
model/histogram   magnitudes of the values of one layer's tensor over the steps
model/axes        which other axes there are next to steps, or why not
model/frames      which frames were recorded: steps, layers, heads
model/tiles       thumbnails of all frames of a kind in a step
model/frame       one full frame, encoded as in trace_hooks.protocol.frames
model/states      hidden states of all layers of a step in two dimensions

All take `attempt`; health and histogram `tensor` and `steps=FIRST..LAST`, `width` (`height`) of the
canvas, `axis` (step_axes.AXES; steps if the run does not have it); tiles and frame `what`, `step`
and optional filters: `layer`, `head`, `sample`, `name`, `shard`; states `what`, `step`, `sample`,
`axes` (hidden_states.KINDS) and `unit`. Statistics are not content: every role may see them. Frames
are content: only operators may see them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.runs.hub import Hub
from app.runs.policies import STALE_WHILE_REVALIDATE
from app.settings import Role
from app.views.model import frames, hidden_states
from app.views.model.recorded import recorded
from app.views.model.step_axes import STEP, Axis, axis_named, step_axes
from app.views.model.tensor_levels import HEADS, statistic_of
from app.views.model.tensor_map import TensorMap, drawn, histogram, tensor_map
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE, pack_arrays
from app.web.caller import require
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import TENSORS

Compute = Callable[[Parameters, Stop], Response]

_PATH = "/api/run/{run}/model/"
_MOST_WIDE = 4096
_NO_STORE = {"Cache-Control": "no-store"}


class _Answers:
    """The answers of this module's routes, by name."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def recorded(self, params: Parameters, _stop: Stop) -> Response:
        return JSONResponse(recorded(self._hub.run(params.run), params.whole("attempt")))

    def health(self, params: Parameters, stop: Stop) -> Response:
        tensors = self._map(params, stop)
        statistic = statistic_of(tensors.tensor, params.text("statistic"))
        height, axis = params.whole("height", 600) or 0, self._axis(params, stop)
        arrays, meta = drawn(tensors, statistic, height, _width(params), axis)
        return Response(pack_arrays(arrays, meta), media_type=MEDIA_TYPE)

    def histogram(self, params: Parameters, stop: Stop) -> Response:
        found = self._map(params, stop)
        key = params.text("row")
        row = next((row for row in found.rows if row.key == key), None)
        if row is None or row.head >= 0:
            raise UserError(f"{found.tensor} has no histogram of {key[:40]!r}; choose a layer")
        attempt, steps, width = params.whole("attempt"), params.pair("steps"), _width(params)
        axis = self._axis(params, stop)

        def compute(run: Run, stop: Stop | None) -> bytes:
            now = axis and step_axes(run, attempt, stop)[axis.name]
            return pack_arrays(*histogram(run, found.tensor, row, attempt, steps, width, now, stop))

        content = self._hub.cache.get(
            params.run,
            ("tensor histogram", found.tensor, key, attempt, steps, width, axis and axis.name),
            compute,
            STALE_WHILE_REVALIDATE,
            stop,
        )
        return Response(content, media_type=MEDIA_TYPE)

    def axes(self, params: Parameters, stop: Stop) -> Response:
        axes = self._axes(params, stop)
        return JSONResponse({"axes": [axis.to_json() for axis in axes.values()]})

    def _axes(self, params: Parameters, stop: Stop) -> dict[str, Axis]:
        attempt = params.whole("attempt")
        return self._hub.cache.get(
            params.run,
            ("step axes", attempt),
            lambda run, stop: step_axes(run, attempt, stop),
            STALE_WHILE_REVALIDATE,
            stop,
        )

    def _axis(self, params: Parameters, stop: Stop) -> Axis | None:
        """The requested axis; None for steps, and for one that the run does not have."""
        name = axis_named(params.text("axis"))
        axis = None if name == STEP else self._axes(params, stop)[name]
        return None if axis is None or axis.why_not else axis

    def frames(self, params: Parameters, stop: Stop) -> Response:
        attempt = params.whole("attempt")
        found = self._hub.cache.get(
            params.run,
            ("frames", attempt),
            lambda run, stop: frames.frame_index(run, attempt, stop),
            STALE_WHILE_REVALIDATE,
            stop,
        )
        return JSONResponse(found, headers=_NO_STORE)

    def tiles(self, params: Parameters, stop: Stop) -> Response:
        height, width = params.whole("height", 48) or 0, params.whole("width", 48) or 0
        made = frames.tiles(self._hub.run(params.run), _wanted(params), height, width, stop)
        return Response(pack_arrays(*made), media_type=MEDIA_TYPE, headers=_NO_STORE)

    def frame(self, params: Parameters, stop: Stop) -> Response:
        frame = frames.frame(self._hub.run(params.run), _wanted(params), stop)
        return Response(frame.encode(), media_type="application/octet-stream", headers=_NO_STORE)

    def states(self, params: Parameters, stop: Stop) -> Response:
        wanted, unit = replace(_wanted(params), layer=None), bool(params.text("unit"))
        kind = params.text("axes", "first")
        step = wanted.step if kind == "own" else None
        axes = self._hub.cache.get(
            params.run,
            ("hidden-state axes", kind, wanted.attempt, wanted.what, wanted.sample, step, unit),
            lambda run, stop: hidden_states.axes_of(run, wanted, kind, unit, stop),
            STALE_WHILE_REVALIDATE,
            stop,
        )
        made = hidden_states.projection(self._hub.run(params.run), wanted, axes, unit, stop)
        return Response(pack_arrays(*made), media_type=MEDIA_TYPE, headers=_NO_STORE)

    def _map(self, params: Parameters, stop: Stop) -> TensorMap:
        tensor, attempt, steps = (
            params.text("tensor"),
            params.whole("attempt"),
            params.pair("steps"),
        )
        if tensor not in (*TENSORS, HEADS):
            raise UserError(f"tensor is {tensor[:40]!r}; give one of {', '.join(TENSORS)}, {HEADS}")
        return self._hub.cache.get(
            params.run,
            ("tensor map", tensor, attempt, steps),
            lambda run, stop: tensor_map(run, tensor, attempt, steps, stop),
            STALE_WHILE_REVALIDATE,
            stop,
        )


def _wanted(params: Parameters) -> frames.Wanted:
    step = params.whole("step")
    if step is None:
        raise UserError("step is missing; give the number of a step")
    return frames.Wanted(
        params.text("what"),
        step,
        params.whole("attempt"),
        _index(params, "layer"),
        _index(params, "head"),
        _index(params, "sample"),
        params.text("name") or None,
        params.text("shard") or None,
    )


def _index(params: Parameters, name: str) -> int | None:
    """A whole number from -1, which means none."""
    return -1 if params.text(name) == "-1" else params.whole(name)


def _width(params: Parameters) -> int:
    return min(params.whole("width", 1200) or 0, _MOST_WIDE)


def routes(context: RouteContext) -> list[Route]:
    """The routes of this module."""
    hub = context.hub
    answers = _Answers(hub)
    statistics = (answers.recorded, answers.health, answers.histogram, answers.axes)
    content = (answers.frames, answers.tiles, answers.frame, answers.states)
    return [
        *(_route(compute.__name__, compute, Role.viewer) for compute in statistics),
        *(_route(compute.__name__, compute, Role.operator) for compute in content),
    ]


def _route(name: str, compute: Compute, role: Role) -> Route:
    async def handle(request: Request) -> Response:
        require(request, role)
        return await answer(
            request, lambda stop: compute(Parameters(request), stop), lambda made: made
        )

    return Route(_PATH + name, handle)

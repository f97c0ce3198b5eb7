"""The timeline of some ranks in a window of time: asked of a run, cut down to what can be drawn.

Rows of a lane: compute, communication, host; behind compute the reasons of idle time, over
communication the part of it that is waiting. Times are ns since the run's t0 on the aligned clock,
in the arrays relative to the window's begin. A run whose times are relative to each step is drawn
one step at a time.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from app.views.timeline import collective_lanes
from app.views.timeline.lanes import MOST_AT_ONCE, Place
from app.views.timeline.lod import Pieces, Rectangles, depths, innermost, nested, owned, rectangles
from app.views.timeline.span_table import NO_STEP, Instances, SpanTable, StepWindows
from app.views.timeline.step_overview import step_rectangles
from app.views.timeline.tile_arrays import (
    COMM,
    COMPUTE,
    HOST,
    IDLE,
    LINES,
    WAIT,
    Tile,
    line,
    made_of,
)
from app.views.timeline.waits import IDLE_KINDS, Idle, has_kernels, idle, waits
from app.views.timeline.window import Extent, Window
from ingest.errors import UserError
from ingest.intervals import Bools, Ints
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS, UNKNOWN

_NESTED_PX = 10
"""Nesting is shown where a span has at least so many pixels on the average."""
_FRAME_PX = 3
_POOL_PX = 3
_STEP_PX = 40
MANY_SPANS = 40_000
"""Spans looked at one by one where steps are narrow; above it the sums per step say as much."""
MOST_SPANS = 1_500_000
"""The same where steps are wide: such a picture takes seconds, but has something to show."""
MOST_WINDOWS = 8_000
"""The same for step windows (lanes x steps)."""
_NO_FRAMES: Ints = np.empty(0, dtype=np.int64)
_ROW_OF_KIND = np.array(
    [
        COMPUTE if k in (*COMPUTE_KINDS, "kernel") else COMM if k in COMM_KINDS else HOST
        for k in KINDS
    ]
)


def tile(
    run: Run,
    attempt: int,
    lanes: list[Place],
    window: Window,
    width_px: int,
    have: Extent,
    stop: Stop | None = None,
) -> Tile:
    """What is drawn for at most MOST_AT_ONCE lanes in a window of `width_px` pixels."""
    if len(lanes) > MOST_AT_ONCE:
        raise UserError(f"{len(lanes)} lanes at once; ask for at most {MOST_AT_ONCE}")
    pixel_ns = window.length_ns / width_px
    ranks = tuple(place.rank for place in lanes)
    steps = _steps_in(window, have)
    if steps * len(lanes) > MOST_WINDOWS:
        pool = math.ceil(steps * _POOL_PX / width_px)
        return _overview(run, attempt, lanes, window, pixel_ns, max(pool, 1), have, stop)
    windows = _windows(run, attempt, lanes, window, have, stop)
    num_spans = int(windows.num_spans_C.sum())
    if num_spans > (MANY_SPANS if steps * _STEP_PX > width_px else MOST_SPANS):
        return _overview(run, attempt, lanes, window, pixel_ns, 1, have, stop)
    spans = _spans(run, attempt, lanes, window, have, stop)
    instances = _instances(run, attempt, lanes, window, windows, stop)
    alone = np.array([rank in have.alone for rank in ranks])
    return drawn(spans, instances, windows, window, pixel_ns, len(lanes), alone)


def _steps_in(window: Window, have: Extent) -> float:
    """About how many steps of a lane lie in the window."""
    if window.step is not None:
        return 1
    share = min(window.length_ns / max(have.end_ns - have.begin_ns, 1), 1)
    return (have.last_step - have.first_step + 1) * share


def _overview(
    run: Run,
    attempt: int,
    lanes: list[Place],
    window: Window,
    pixel_ns: float,
    pool: int,
    have: Extent,
    stop: Stop | None,
) -> Tile:
    """The tile of the sums per step, `pool` steps taken together; of lanes without steps that of
    the collectives, those of a pixel taken together.
    """
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    from_ns, to_ns = _own_clocks(lanes, window, t0_ns)
    rows = run.ask(
        "step_shares",
        ranks=_text(ranks),
        attempt=attempt,
        from_ns=from_ns,
        to_ns=to_ns,
        pool=pool,
        stop=stop,
    )
    num_spans = int(np.sum(rows.column("num_spans").to_numpy()))
    rects, windows = step_rectangles(
        rows, ranks, t0_ns, np.append(_ROW_OF_KIND, [IDLE] * len(IDLE_KINDS)), (LINES, 8), pixel_ns
    )
    rects = _without_slivers(rects, pixel_ns)
    if any(rank in have.alone for rank in ranks):
        seen_ns = window.begin_ns, min(window.end_ns, have.end_ns)
        pooled = collective_lanes.pooled(run, attempt, lanes, have.alone, seen_ns, pixel_ns, stop)
        num_spans += int(pooled.count_R.sum())
        rects = rects.joined(pooled)
    told = {"detail": "steps", "pool": pool} if rows.num_rows else {"detail": "innermost"}
    made = made_of(rects, SpanTable.none(), _NO_FRAMES, Instances.none(), windows, window.begin_ns)
    return Tile(made.arrays, made.meta | told | {"num_spans": num_spans})


def load(
    run: Run, attempt: int, lanes: list[Place], window: Window, have: Extent, stop: Stop | None
) -> tuple[SpanTable, Instances, StepWindows]:
    """Everything recorded of some lanes in a window."""
    windows = _windows(run, attempt, lanes, window, have, stop)
    spans = _spans(run, attempt, lanes, window, have, stop)
    return spans, _instances(run, attempt, lanes, window, windows, stop), windows


def drawn(
    spans: SpanTable,
    instances: Instances,
    windows: StepWindows,
    window: Window,
    pixel_ns: float,
    num_lanes: int,
    alone: Bools | None = None,
) -> Tile:
    """The tile of what was loaded; `alone`: lanes of which there are only collectives. Pure."""
    row_S = spans.lane_S * 3 + np.where(
        has_kernels(spans) & (_ROW_OF_KIND[spans.kind_S] == COMPUTE) & ~_is_kernel(spans),
        HOST,
        _ROW_OF_KIND[spans.kind_S],
    )
    is_nested = len(spans) * _NESTED_PX <= num_lanes * window.length_ns / pixel_ns
    segments = owned(spans)
    if is_nested:
        shown, level_E = nested(spans, row_S)
    else:
        shown = innermost(spans, segments, row_S)
        level_E = np.zeros(shown.ref_E.size, dtype=np.int64)
    if alone is not None and alone.any():
        shown, level_E = collective_lanes.by_group(
            shown, level_E, spans, segments, alone[spans.lane_S]
        )
    pieces = Pieces.joined(
        [
            Pieces(
                line(shown.row_E // 3, shown.row_E % 3, level_E),
                shown.begin_E,
                shown.end_E,
                shown.kind_E,
                shown.ref_E,
            ),
            _idle_pieces(idle(spans, segments, cut_windows(windows, window), instances), IDLE),
            _idle_pieces(waits(instances), WAIT),
        ]
    )
    rects = rectangles(_seen(pieces, window), window.begin_ns, pixel_ns)
    rects = _without_slivers(rects, pixel_ns)
    frames_S = _frames(spans, _FRAME_PX * pixel_ns)
    made = made_of(rects, spans, frames_S, instances, windows, window.begin_ns)
    return Tile(made.arrays, made.meta | {"detail": "nested" if is_nested else "innermost"})


def cut_windows(windows: StepWindows, window: Window) -> StepWindows:
    """Step windows as far as they lie in the window: what is outside was not loaded."""
    return replace(
        windows,
        begin_C=np.clip(windows.begin_C, window.begin_ns, window.end_ns),
        end_C=np.clip(windows.end_C, window.begin_ns, window.end_ns),
    )


def _idle_pieces(found: Idle, row: int) -> Pieces:
    return Pieces(
        line(found.lane_E, row, 0), found.begin_E, found.end_E, found.kind_E, found.instance_E
    )


def _is_kernel(spans: SpanTable) -> Bools:
    return np.asarray(spans.kind_S == KINDS.index("kernel"))


def _seen(pieces: Pieces, window: Window) -> Pieces:
    inside = (pieces.begin_E < window.end_ns) & (pieces.end_E > window.begin_ns)
    return Pieces(*(getattr(pieces, name)[inside] for name in pieces.__dataclass_fields__))


def _without_slivers(rects: Rectangles, pixel_ns: float) -> Rectangles:
    """Idle time of a pixel is drawn only where it is most of the pixel."""
    row_R = rects.row_R % LINES // 8
    length_R = rects.end_R - rects.begin_R
    background_R = (row_R == IDLE) & (rects.busy_R < np.maximum(pixel_ns, length_R) / 2)
    kept = ~background_R
    columns = ("row_R", "begin_R", "end_R", "kind_R", "ref_R", "count_R", "busy_R")
    return Rectangles(*(getattr(rects, name)[kept] for name in columns), rects.pixel_ns)


def _frames(spans: SpanTable, least_ns: float) -> Ints:
    """Outermost spans of micro-batches long enough to be marked; all around them are longer."""
    wide = np.flatnonzero(
        (spans.microbatch_S >= 0)
        & (_ROW_OF_KIND[spans.kind_S] == COMPUTE)
        & (spans.end_S - spans.begin_S >= least_ns)
    )
    depth = depths(spans.lane_S[wide], spans.begin_S[wide], spans.end_S[wide])
    return np.asarray(wide[depth == 0])


def _text(ranks: list[int] | tuple[int, ...]) -> str:
    return ",".join(map(str, ranks))


def _windows(
    run: Run, attempt: int, lanes: list[Place], window: Window, have: Extent, stop: Stop | None
) -> StepWindows:
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    wanted: dict[str, int] = (
        {"begin_ns": window.begin_ns + t0_ns, "end_ns": window.end_ns + t0_ns}
        if window.step is None
        else {"step_min": window.step, "step_max": window.step}
    )
    rows = run.ask("step_windows", ranks=_text(ranks), attempt=attempt, stop=stop, **wanted)
    found = StepWindows.from_arrow(rows, ranks, t0_ns)
    if not have.alone:
        return found
    seen_ns, extent_ns = (window.begin_ns, window.end_ns), (have.begin_ns, have.end_ns)
    return found.joined(collective_lanes.windows(lanes, have.alone, seen_ns, extent_ns))


def _spans(
    run: Run, attempt: int, lanes: list[Place], window: Window, have: Extent, stop: Stop | None
) -> SpanTable:
    """Spans of the lanes, and the collectives of those that have none."""
    spans = _own_spans(run, attempt, lanes, window, stop)
    if not any(place.rank in have.alone for place in lanes):
        return spans
    return spans.joined(
        collective_lanes.spans(
            run, attempt, lanes, have.alone, (window.begin_ns, window.end_ns), have.end_ns, stop
        )
    )


def _own_spans(
    run: Run, attempt: int, lanes: list[Place], window: Window, stop: Stop | None
) -> SpanTable:
    t0_ns = run.info["created_ns"]
    ranks = tuple(place.rank for place in lanes)
    begin_ns, end_ns = window.begin_ns + t0_ns, window.end_ns + t0_ns
    from_ns, to_ns = _own_clocks(lanes, window, t0_ns)
    rows = run.ask(
        "window_spans",
        ranks=_text(ranks),
        attempt=attempt,
        step=window.step,
        begin_ns=begin_ns,
        end_ns=end_ns,
        rank_min=min(ranks),
        rank_max=max(ranks),
        from_ns=from_ns,
        to_ns=to_ns,
        stop=stop,
    )
    return SpanTable.from_arrow(rows, ranks, t0_ns)


def _own_clocks(lanes: list[Place], window: Window, t0_ns: int) -> tuple[int, int]:
    """A window that has the wanted one on each lane's own clock, Unix ns."""
    shifts = [0, *(s for p in lanes for s in (p.shift_min_ns, p.shift_max_ns) if s is not None)]
    return (
        window.begin_ns + t0_ns - max(shifts) - _DRIFT_NS,
        window.end_ns + t0_ns - min(shifts) + _DRIFT_NS,
    )


_DRIFT_NS = 1_000_000_000
"""What a clock may drift from one estimate to the next, generously."""


def _instances(
    run: Run,
    attempt: int,
    lanes: list[Place],
    window: Window,
    windows: StepWindows,
    stop: Stop | None,
) -> Instances:
    """None where no lane's clock is known: then no instance can have a verdict."""
    if all(place.shift_min_ns is None for place in lanes):
        return Instances.none()
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    step_C = windows.step_C
    steps: dict[str, int] = {}  # all of them where those of a lane are not known
    if not (step_C == NO_STEP).any():
        steps = {
            "step_min": int(step_C.min()) if step_C.size else UNKNOWN,
            "step_max": int(step_C.max()) if step_C.size else UNKNOWN,
        }
    rows = run.ask(
        "window_waits",
        ranks=_text(ranks),
        attempt=attempt,
        begin_ns=window.begin_ns + t0_ns,
        end_ns=window.end_ns + t0_ns,
        stop=stop,
        **steps,
    )
    return Instances.from_arrow(rows, ranks, t0_ns, window.end_ns)

"""The timeline of some ranks in a window of time: what is asked of a run, and how it is drawn.

Rows of a lane: compute, communication, host; behind compute the reasons of idle time, over
communication the part of it that is waiting. Times are ns since the run's t0 on the aligned clock,
in the arrays relative to the window's begin. A run whose times are relative to each step is drawn
one step at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from app.views.timeline.collective_lines import bin_rectangles, by_group
from app.views.timeline.lanes import MOST_AT_ONCE, Place
from app.views.timeline.lod import (
    MOST_RECTANGLES,
    Pieces,
    Rectangles,
    depths,
    innermost,
    nested,
    owned,
    rectangles,
)
from app.views.timeline.query import LaneQuery
from app.views.timeline.span_table import Instances, SpanTable, StepWindows
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
from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS

_NESTED_PX = 10
"""Nesting is shown where a span has at least this many pixels on average."""
_FRAME_PX = 3
_POOL_PX = 3
_STEP_PX = 40
MANY_SPANS = 40_000
"""Spans drawn one by one where steps are narrow; above it the sums per step show as much."""
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
    extent: Extent,
    stop: Stop | None = None,
) -> Tile:
    """What is drawn for at most MOST_AT_ONCE lanes in a window of `width_px` pixels."""
    return Tiles(LaneQuery(run, attempt, lanes, window, extent, stop)).tile(width_px)


@dataclass(frozen=True)
class Tiles:
    """Tiles of the same lanes and window in several widths: what was recorded is read once."""

    query: LaneQuery

    def tile(self, width_px: int) -> Tile:
        """What is drawn on `width_px` pixels; raises UserError."""
        query = self.query
        if len(query.lanes) > MOST_AT_ONCE:
            raise UserError(f"{len(query.lanes)} lanes at once; ask for at most {MOST_AT_ONCE}")
        pixel_ns, num_steps = query.window.length_ns / width_px, query.num_steps
        if num_steps * len(query.lanes) > MOST_WINDOWS:
            return _sums(query, pixel_ns, max(math.ceil(num_steps * _POOL_PX / width_px), 1))
        windows = self._windows
        num_spans = int(windows.num_spans_C[~windows.summed_C].sum())
        if num_spans > (MANY_SPANS if num_steps * _STEP_PX > width_px else MOST_SPANS):
            return _sums(query, pixel_ns, 1)
        return drawn(
            self._spans,
            self._instances,
            windows,
            query.window,
            pixel_ns,
            len(query.lanes),
            query.has_only_collectives,
            _summed(query, windows, pixel_ns) if windows.summed_C.any() else None,
        )

    @cached_property
    def _windows(self) -> StepWindows:
        return self.query.step_windows()

    @cached_property
    def _spans(self) -> SpanTable:
        return self.query.spans()

    @cached_property
    def _instances(self) -> Instances:
        return self.query.instances(self._windows)


def _summed(query: LaneQuery, windows: StepWindows, pixel_ns: float) -> Rectangles:
    """Steps whose spans were summed up where they were recorded, each as one rectangle in a row."""
    rows = query.step_shares(1)
    lanes = {rank: lane for lane, rank in enumerate(query.ranks)}
    summed = windows.only(windows.summed_C)
    cells = set(zip(summed.lane_C.tolist(), summed.step_C.tolist(), strict=True))
    places = zip(rows.column("rank").to_pylist(), rows.column("step").to_pylist(), strict=True)
    rows = rows.filter(
        pa.array([(lanes[rank], step) in cells for rank, step in places], pa.bool_())
    )
    return _step_rectangles(query, rows, pixel_ns)[0]


def _step_rectangles(
    query: LaneQuery, rows: pa.Table, pixel_ns: float
) -> tuple[Rectangles, StepWindows]:
    row_of_kind = np.append(_ROW_OF_KIND, [IDLE] * len(IDLE_KINDS))
    rects, windows = step_rectangles(
        rows, query.ranks, query.t0_ns, row_of_kind, (LINES, 8), pixel_ns
    )
    return _without_slivers(rects, pixel_ns), windows


def _sums(query: LaneQuery, pixel_ns: float, pool: int) -> Tile:
    """The tile of the sums per step, `pool` steps taken together; of lanes without steps that of
    the collectives, those of a pixel taken together.
    """
    rows = query.step_shares(pool)
    num_spans = int(np.sum(rows.column("num_spans").to_numpy()))
    rects, windows = _step_rectangles(query, rows, pixel_ns)
    if query.has_only_collectives.any():
        bin_ns = max(math.ceil(pixel_ns), query.least_bin_ns(MOST_RECTANGLES), 1)
        bins = query.collective_bins(bin_ns)
        collectives = bin_rectangles(bins, query.ranks, query.t0_ns, bin_ns)
        num_spans += int(collectives.count_R.sum())
        rects = rects.joined(collectives)
    begin_ns = query.window.begin_ns
    detail = {"detail": "steps", "pool": pool} if rows.num_rows else {"detail": "innermost"}
    made = made_of(rects, SpanTable.none(), _NO_FRAMES, Instances.none(), windows, begin_ns)
    return Tile(made.arrays, made.meta | detail | {"num_spans": num_spans})


def drawn(
    spans: SpanTable,
    instances: Instances,
    windows: StepWindows,
    window: Window,
    pixel_ns: float,
    num_lanes: int,
    has_only_collectives: Bools,
    summed: Rectangles | None = None,
) -> Tile:
    """The tile of what was recorded, with the rectangles of steps that were summed up. Pure."""
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
    if has_only_collectives.any():
        is_collective_S = has_only_collectives[spans.lane_S]
        shown, level_E = by_group(shown, level_E, spans, segments, is_collective_S)
    clipped = windows.only(~windows.summed_C).clipped(window.begin_ns, window.end_ns)
    pieces = Pieces.joined(
        [
            Pieces(
                line(shown.row_E // 3, shown.row_E % 3, level_E),
                shown.begin_E,
                shown.end_E,
                shown.kind_E,
                shown.ref_E,
            ),
            _idle_pieces(idle(spans, segments, clipped, instances), IDLE),
            _idle_pieces(waits(instances), WAIT),
        ]
    )
    rects = rectangles(_visible(pieces, window), window.begin_ns, pixel_ns)
    rects = _without_slivers(rects, pixel_ns)
    told = {
        "detail": "nested" if is_nested else "innermost",
        "merged": int((rects.count_R > 1).sum()),
        "summed_steps": np.unique(windows.step_C[windows.summed_C]).size,
    }
    frames_S = _frames(spans, _FRAME_PX * pixel_ns)
    shown = rects if summed is None else rects.joined(summed)
    made = made_of(shown, spans, frames_S, instances, windows, window.begin_ns)
    return Tile(made.arrays, made.meta | told)


def _idle_pieces(found: Idle, row: int) -> Pieces:
    return Pieces(
        line(found.lane_E, row, 0), found.begin_E, found.end_E, found.kind_E, found.instance_E
    )


def _is_kernel(spans: SpanTable) -> Bools:
    return np.asarray(spans.kind_S == KINDS.index("kernel"))


def _visible(pieces: Pieces, window: Window) -> Pieces:
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

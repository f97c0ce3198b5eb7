"""The timeline of some ranks in a window of time: asked of a run, cut down to what can be drawn.

Rows of a lane: compute, communication, host; behind compute the reasons of idle time, over
communication the part of it that is waiting. Times are ns since the run's t0 on the aligned clock,
in the arrays relative to the window's begin. A run whose times are relative to each step is drawn
one step at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from app.views.lanes import MOST_AT_ONCE, Place
from app.views.lod import Pieces, Rectangles, depths, innermost, nested, owned, rectangles
from app.views.span_table import Instances, SpanTable, StepWindows
from app.views.step_overview import step_rectangles
from app.views.tile_arrays import COMM, COMPUTE, HOST, IDLE, LINES, WAIT, Tile, line, made_of
from app.views.waits import IDLE_KINDS, Idle, has_kernels, idle, waits
from ingest.errors import UserError
from ingest.intervals import Bools, Ints
from ingest.sandbox import Stop
from ingest.store import Run
from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS

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


@dataclass(frozen=True)
class Window:
    """What part of time is wanted, ns since t0; `step` only where times are relative to steps."""

    begin_ns: int
    end_ns: int
    step: int | None = None

    @property
    def length_ns(self) -> int:
        """Length, at least 1."""
        return max(self.end_ns - self.begin_ns, 1)


@dataclass(frozen=True)
class Extent:
    """From when to when there is something, ns since t0, and the newest steps all have finished."""

    begin_ns: int
    end_ns: int
    first_step: int
    last_step: int
    finished_step: int | None
    before_step: int | None


def is_relative(run: Run) -> bool:
    """Whether times count from each step's begin, so that steps cannot be compared by time."""
    return run.info["clock"] == "per_step_relative"


def extent(run: Run, attempt: int, ranks: list[int], stop: Stop | None = None) -> Extent | None:
    """Extent of the data of these ranks, None without any."""
    rows = run.ask("step_extent", ranks=_text(ranks), attempt=attempt, stop=stop).to_pylist()
    if not rows:
        return None
    row, t0_ns = rows[0], run.info["created_ns"]
    return Extent(
        row["begin_ns"] - t0_ns, row["end_ns"] - t0_ns, row["first_step"], row["last_step"],
        row["finished_step"], row["before_step"],
    )  # fmt: skip


def window_of_steps(
    run: Run, attempt: int, ranks: list[int], steps: tuple[int, int], stop: Stop | None = None
) -> Window:
    """Window of some steps of these ranks; raises UserError where they have none of them."""
    first, last = steps
    if is_relative(run):
        first = last

    def windows(step_min: int, step_max: int) -> pa.Table:
        return run.ask(
            "step_windows", ranks=_text(ranks), attempt=attempt, step_min=step_min,
            step_max=step_max, stop=stop,
        )  # fmt: skip

    borders = [windows(step, step) for step in {first, last}]  # those between say nothing more
    rows = pa.concat_tables(borders if all(b.num_rows for b in borders) else [windows(first, last)])
    if not rows.num_rows:
        raise UserError(f"these ranks have no step {first} to {last} in attempt {attempt}")
    t0_ns = run.info["created_ns"]
    begin_ns = int(rows.column("begin_ns").to_numpy().min()) - t0_ns
    end_ns = int(rows.column("end_ns").to_numpy().max()) - t0_ns
    return Window(begin_ns, end_ns, last if is_relative(run) else None)


def default_window(
    run: Run, attempt: int, ranks: list[int], have: Extent, stop: Stop | None = None
) -> Window:
    """The last two steps that all of these ranks have finished, and what came after them."""
    if have.finished_step is None:
        if is_relative(run):
            return window_of_steps(run, attempt, ranks, (have.last_step, have.last_step), stop)
        return Window(have.begin_ns, have.end_ns)
    first = have.finished_step if have.before_step is None else have.before_step
    found = window_of_steps(run, attempt, ranks, (first, have.finished_step), stop)
    if is_relative(run):
        return found
    return Window(found.begin_ns, max(found.end_ns, have.end_ns))


def tile(
    run: Run, attempt: int, lanes: list[Place], window: Window, width_px: int, have: Extent,
    stop: Stop | None = None,
) -> Tile:  # fmt: skip
    """What is drawn for at most MOST_AT_ONCE lanes in a window of `width_px` pixels."""
    if len(lanes) > MOST_AT_ONCE:
        raise UserError(f"{len(lanes)} lanes at once; ask for at most {MOST_AT_ONCE}")
    pixel_ns = window.length_ns / width_px
    ranks = tuple(place.rank for place in lanes)
    steps = _steps_in(window, have)
    if steps * len(lanes) > MOST_WINDOWS:
        pool = math.ceil(steps * _POOL_PX / width_px)
        return _overview(run, attempt, lanes, window, pixel_ns, max(pool, 1), stop)
    windows = _windows(run, attempt, ranks, window, stop)
    num_spans = int(windows.num_spans_C.sum())
    if num_spans > (MANY_SPANS if steps * _STEP_PX > width_px else MOST_SPANS):
        return _overview(run, attempt, lanes, window, pixel_ns, 1, stop)
    spans = _spans(run, attempt, lanes, window, stop)
    instances = _instances(run, attempt, ranks, window, windows, stop)
    return drawn(spans, instances, windows, window, pixel_ns, len(lanes))


def _steps_in(window: Window, have: Extent) -> float:
    """About how many steps of a lane lie in the window."""
    if window.step is not None:
        return 1
    share = min(window.length_ns / max(have.end_ns - have.begin_ns, 1), 1)
    return (have.last_step - have.first_step + 1) * share


def _overview(
    run: Run, attempt: int, lanes: list[Place], window: Window, pixel_ns: float, pool: int,
    stop: Stop | None,
) -> Tile:  # fmt: skip
    """The tile of the sums per step, `pool` steps taken together."""
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    from_ns, to_ns = _own_clocks(lanes, window, t0_ns)
    rows = run.ask(
        "step_shares", ranks=_text(ranks), attempt=attempt, from_ns=from_ns, to_ns=to_ns, pool=pool,
        stop=stop,
    )  # fmt: skip
    rects, windows = step_rectangles(
        rows, ranks, t0_ns, np.append(_ROW_OF_KIND, [IDLE] * len(IDLE_KINDS)), (LINES, 8), pixel_ns
    )
    rects = _without_slivers(rects, pixel_ns)
    made = made_of(rects, SpanTable.none(), _NO_FRAMES, Instances.none(), windows, window.begin_ns)
    num_spans = int(np.sum(rows.column("num_spans").to_numpy()))
    return Tile(made.arrays, made.meta | {"detail": "steps", "pool": pool, "num_spans": num_spans})


def load(
    run: Run, attempt: int, lanes: list[Place], window: Window, stop: Stop | None
) -> tuple[SpanTable, Instances, StepWindows]:
    """Everything recorded of some lanes in a window."""
    ranks = tuple(place.rank for place in lanes)
    windows = _windows(run, attempt, ranks, window, stop)
    spans = _spans(run, attempt, lanes, window, stop)
    return spans, _instances(run, attempt, ranks, window, windows, stop), windows


def drawn(
    spans: SpanTable, instances: Instances, windows: StepWindows, window: Window, pixel_ns: float,
    num_lanes: int,
) -> Tile:  # fmt: skip
    """The tile of what was loaded. Pure."""
    row_S = spans.lane_S * 3 + np.where(
        has_kernels(spans) & (_ROW_OF_KIND[spans.kind_S] == COMPUTE) & ~_is_kernel(spans),
        HOST, _ROW_OF_KIND[spans.kind_S],
    )  # fmt: skip
    is_nested = len(spans) * _NESTED_PX <= num_lanes * window.length_ns / pixel_ns
    segments = owned(spans)
    if is_nested:
        shown, level_E = nested(spans, row_S)
    else:
        shown = innermost(spans, segments, row_S)
        level_E = np.zeros(shown.ref_E.size, dtype=np.int64)
    pieces = Pieces.joined([
        Pieces(
            line(shown.row_E // 3, shown.row_E % 3, level_E), shown.begin_E, shown.end_E,
            shown.kind_E, shown.ref_E,
        ),
        _idle_pieces(idle(spans, segments, cut_windows(windows, window), instances), IDLE),
        _idle_pieces(waits(instances), WAIT),
    ])  # fmt: skip
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
    run: Run, attempt: int, ranks: tuple[int, ...], window: Window, stop: Stop | None
) -> StepWindows:
    t0_ns = run.info["created_ns"]
    wanted: dict[str, int] = (
        {"begin_ns": window.begin_ns + t0_ns, "end_ns": window.end_ns + t0_ns}
        if window.step is None
        else {"step_min": window.step, "step_max": window.step}
    )
    rows = run.ask("step_windows", ranks=_text(ranks), attempt=attempt, stop=stop, **wanted)
    return StepWindows.from_arrow(rows, ranks, t0_ns)


def _spans(
    run: Run, attempt: int, lanes: list[Place], window: Window, stop: Stop | None
) -> SpanTable:
    t0_ns = run.info["created_ns"]
    ranks = tuple(place.rank for place in lanes)
    begin_ns, end_ns = window.begin_ns + t0_ns, window.end_ns + t0_ns
    from_ns, to_ns = _own_clocks(lanes, window, t0_ns)
    rows = run.ask(
        "window_spans", ranks=_text(ranks), attempt=attempt, step=window.step, begin_ns=begin_ns,
        end_ns=end_ns, rank_min=min(ranks), rank_max=max(ranks), from_ns=from_ns, to_ns=to_ns,
        stop=stop,
    )  # fmt: skip
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
    run: Run, attempt: int, ranks: tuple[int, ...], window: Window, windows: StepWindows,
    stop: Stop | None,
) -> Instances:  # fmt: skip
    t0_ns = run.info["created_ns"]
    rows = run.ask(
        "window_waits", ranks=_text(ranks), attempt=attempt, begin_ns=window.begin_ns + t0_ns,
        end_ns=window.end_ns + t0_ns,
        step_min=int(windows.step_C.min()) if windows.step_C.size else -1,
        step_max=int(windows.step_C.max()) if windows.step_C.size else -1, stop=stop,
    )  # fmt: skip
    return Instances.from_arrow(rows, ranks, t0_ns, window.end_ns)

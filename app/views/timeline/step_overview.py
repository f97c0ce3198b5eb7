"""A timeline of more spans than can be looked at one by one: each step shows what it was spent on.

Made of the sums per step and kind, so it costs the same however many spans there are. In every row
of a lane a step is one rectangle of the kind that took most of that row's time; when within the
step is not shown, and the answer says so (`detail` is "steps").

Shape suffixes: K rows (step and kind), R rectangles.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from app.views.timeline.lod import Rectangles
from app.views.timeline.span_table import StepWindows, dictionary, ints, lane_of
from app.views.timeline.waits import IDLE_KINDS
from ingest.intervals import Ints
from trace_hooks.schema import KINDS

_ALL_KINDS = (*KINDS, *IDLE_KINDS)


def step_rectangles(
    rows: pa.Table,
    ranks: tuple[int, ...],
    t0_ns: int,
    row_of_kind: Ints,
    lines: tuple[int, int],
    pixel_ns: float,
) -> tuple[Rectangles, StepWindows]:
    """Rectangles and step windows of rows of sql/step_shares.sql.

    row_of_kind: row of each kind, the idle kinds behind the others; lines: numbers of a lane and of
    a row, as the rectangles' row is lane x lines[0] + row x lines[1].
    """
    kind_K, kinds = dictionary(rows, "kind")
    kind_K = np.array([_ALL_KINDS.index(kind) for kind in kinds] or [0])[kind_K]
    lane_K, step_K = lane_of(ints(rows, "rank"), ranks), ints(rows, "step")
    time_K, begin_K = ints(rows, "time_ns"), ints(rows, "begin_ns") - t0_ns
    line_K = lane_K * lines[0] + row_of_kind[kind_K] * lines[1]
    order = np.lexsort((time_K, step_K, line_K))  # the greatest kind comes last
    last = np.ones(order.size, dtype=np.bool_)
    last[:-1] = (np.diff(line_K[order]) | np.diff(step_K[order])) != 0
    cell_K = np.concatenate(([0], np.cumsum(last)[:-1])) if order.size else order
    chosen = order[last]
    busy = np.bincount(cell_K, time_K[order], chosen.size).astype(np.int64)
    count = np.bincount(cell_K, ints(rows, "num_spans")[order], chosen.size).astype(np.int64)
    end_K = ints(rows, "end_ns") - t0_ns
    rects = Rectangles(
        line_K[chosen],
        begin_K[chosen],
        end_K[chosen],
        kind_K[chosen],
        np.full(chosen.size, -1),
        np.maximum(count, 2),
        busy,
        pixel_ns,
    )
    return rects, _windows(lane_K, step_K, begin_K, end_K)


def _windows(lane_K: Ints, step_K: Ints, begin_K: Ints, end_K: Ints) -> StepWindows:
    """One window per lane and step (or pool of steps)."""
    _, first = np.unique(np.stack((lane_K, step_K)), axis=1, return_index=True)
    return StepWindows(
        lane_K[first],
        step_K[first],
        begin_K[first],
        end_K[first],
        np.ones(first.size, dtype=bool),
        np.zeros(first.size, dtype=np.int64),
        np.zeros(first.size, dtype=bool),
    )

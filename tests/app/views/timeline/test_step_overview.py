"""Steps as rectangles: the greatest kind of a row stands for it, sums stay."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from app.views.timeline.step_overview import step_rectangles
from app.views.timeline.waits import IDLE_KINDS
from trace_hooks.schema import KINDS

NAMES = ("rank", "step", "kind", "time_ns", "num_spans", "begin_ns", "end_ns")
LANE, ROW = 64, 8
ROW_OF_KIND = np.array([0 if kind in ("forward", "backward") else 1 for kind in KINDS])
ROW_OF_KIND = np.concatenate((ROW_OF_KIND, np.full(len(IDLE_KINDS), 3)))


def drawn(*rows):
    """Rectangles and windows of these rows (see NAMES), of ranks 7 and 4, from t0 = 1000 on."""
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=list(NAMES))
    return step_rectangles(table, (7, 4), 1000, ROW_OF_KIND, (LANE, ROW), 5.0)


def test_a_row_of_a_step_is_of_the_kind_that_took_most_and_sums_all():
    rects, windows = drawn(
        (4, 0, "forward", 30, 3, 1000, 1100),
        (4, 0, "backward", 50, 1, 1000, 1100),
        (4, 0, "tp_comm", 9, 1, 1000, 1100),
        (4, 1, "forward", 20, 1, 1100, 1200),
        (7, 0, "waiting", 11, 5, 1000, 1100),
    )
    found = zip(rects.row_R, rects.begin_R, rects.kind_R, rects.busy_R, rects.count_R, strict=True)
    kinds = (*KINDS, *IDLE_KINDS)
    assert sorted((int(r), int(b), kinds[k], int(t), int(n)) for r, b, k, t, n in found) == [
        (3 * ROW, 0, "waiting", 11, 5),
        (LANE, 0, "backward", 80, 4),
        (LANE, 100, "forward", 20, 2),
        (LANE + ROW, 0, "tp_comm", 9, 2),
    ]
    assert (rects.ref_R.tolist(), rects.pixel_ns) == ([-1] * 4, 5.0)
    steps = zip(windows.lane_C, windows.step_C, windows.begin_C, windows.end_C, strict=True)
    assert [tuple(map(int, row)) for row in steps] == [
        (0, 0, 0, 100),
        (1, 0, 0, 100),
        (1, 1, 100, 200),
    ]


def test_no_rows_are_no_rectangles():
    names = dict(zip(NAMES, [pa.int64()] * 2 + [pa.string()] + [pa.int64()] * 4, strict=True))
    rects, windows = step_rectangles(
        pa.schema(names).empty_table(), (7, 4), 0, ROW_OF_KIND, (LANE, ROW), 5.0
    )
    assert (rects.row_R.size, windows.step_C.size) == (0, 0)

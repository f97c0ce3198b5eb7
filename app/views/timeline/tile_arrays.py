"""A tile of the timeline as the browser gets it: rectangles, and the spans and waits they are of.

assets/timeline/lanes/tile.mjs reads it. Times are relative to the window's begin, ns. Shape
suffixes: R rectangles, S spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app.views.run.pipelines import may_have_pipeline
from app.views.timeline.lanes import Place
from app.views.timeline.lod import Rectangles
from app.views.timeline.span_table import NO_STEP, Instances, SpanTable, StepWindows, take
from app.views.timeline.waits import IDLE_KINDS
from app.views.timeline.window import Extent, Window
from ingest.intervals import Ints
from ingest.run import Run
from trace_hooks.schema import KINDS

ROWS = ("compute", "comm", "host", "idle", "wait")
COMPUTE, COMM, HOST, IDLE, WAIT = range(len(ROWS))
_NO_REF = np.iinfo(np.uint32).max
LINES = 64
"""Lines of a lane: row x 8 + level."""


def line(lane: Ints, row: Ints | int, level: Ints | int) -> Ints:
    """Number of a line of a lane."""
    return lane * LINES + row * 8 + level


@dataclass(frozen=True)
class Tile:
    """Arrays and values of one answer; app.web.arrays packs them."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]


def tile_meta(
    run: Run, attempt: int, lanes: Sequence[Place], window: Window, have: Extent
) -> dict[str, Any]:
    """What a tile says apart from what is drawn: window, attempt, clock and lanes."""
    shown_extent = {key: value for key, value in asdict(have).items() if key != "only_collectives"}
    return {
        "from": window.begin_ns,
        "to": window.end_ns,
        "relative_step": window.step,
        "lanes": [_described(place) for place in lanes],
        "attempt": attempt,
        "t0_ns": str(run.info["created_ns"]),
        "clock": run.info["clock"],
        "extent": shown_extent,
        "has_pipeline": may_have_pipeline(run, attempt),
        "only_comm": all(place.rank in have.only_collectives for place in lanes),
    }


def _described(place: Place) -> dict[str, Any]:
    return {
        "rank": place.rank,
        "label": place.label,
        "host": place.host,
        "err_ns": place.err_ns,
        "aligned": place.shift_min_ns is not None,
        "place": [place.pp, place.dp, place.cp, place.tp],
    }


def made_of(
    rects: Rectangles,
    spans: SpanTable,
    frames_S: Ints,
    instances: Instances,
    windows: StepWindows,
    origin_ns: int,
) -> Tile:
    """The tile of some rectangles and what they are of; origin_ns: begin of the window."""
    arrays = _rect_arrays(rects, origin_ns)
    arrays |= _span_arrays(spans, arrays, rects, frames_S, origin_ns)
    arrays |= _wait_arrays(instances, arrays, rects, origin_ns)
    arrays |= _window_arrays(windows, origin_ns)
    return Tile(
        arrays,
        {
            "pixel_ns": rects.pixel_ns,
            "merged": int((rects.count_R > 1).sum()),
            "num_spans": len(spans),
            "kinds": [*KINDS, *IDLE_KINDS],
            "rows": list(ROWS),
            "names": spans.names,
            "groups": [str(group) for group in spans.groups],
            "wait_groups": [str(group) for group in np.unique(instances.group_W).tolist()],
        },
    )


def _rect_arrays(rects: Rectangles, origin_ns: int) -> dict[str, np.ndarray]:
    return {
        "lane": (rects.row_R // LINES).astype(np.uint16),
        "row": (rects.row_R % LINES // 8).astype(np.uint8),
        "level": (rects.row_R % 8).astype(np.uint8),
        "kind": rects.kind_R.astype(np.uint8),
        "start": (rects.begin_R - origin_ns).astype(np.float64),
        "dur": (rects.end_R - rects.begin_R).astype(np.float32),
        "count": rects.count_R.astype(np.uint32),
        "busy": rects.busy_R.astype(np.float32),
    }


def _span_arrays(
    spans: SpanTable,
    rect_arrays: dict[str, np.ndarray],
    rects: Rectangles,
    frames_S: Ints,
    origin_ns: int,
) -> dict[str, np.ndarray]:
    """Columns of the spans that rectangles and frames are of; `ref` points into them."""
    of_span_R = (rect_arrays["row"] <= HOST) & (rects.ref_R >= 0)
    used, index = np.unique(np.concatenate((rects.ref_R[of_span_R], frames_S)), return_inverse=True)
    ref_R = np.full(rects.ref_R.size, _NO_REF, dtype=np.uint32)
    num_rects = int(of_span_R.sum())
    ref_R[of_span_R] = index[:num_rects]
    rect_arrays["ref"] = ref_R
    return {
        "frame": index[num_rects:].astype(np.uint32),
        "span_lane": spans.lane_S[used].astype(np.uint16),
        "span_start": (spans.begin_S[used] - origin_ns).astype(np.float64),
        "span_dur": (spans.end_S[used] - spans.begin_S[used]).astype(np.float32),
        "span_cpu": spans.cpu_S[used].astype(np.float32),
        "span_kind": spans.kind_S[used].astype(np.uint8),
        "span_name": spans.name_S[used].astype(np.uint32),
        "span_step": spans.step_S[used].astype(np.int32),
        "span_microbatch": spans.microbatch_S[used].astype(np.int32),
        "span_chunk": spans.chunk_S[used].astype(np.int32),
        "span_recompute": spans.recompute_S[used].astype(np.uint8),
        "span_group": spans.group_S[used].astype(np.int32),
        "span_seq": spans.seq_S[used].astype(np.int32),
        "span_peer": spans.peer_S[used].astype(np.int32),
        "span_bytes": spans.bytes_S[used].astype(np.float32),
        "span_open": spans.open_S[used].astype(np.uint8),
    }


def _wait_arrays(
    instances: Instances, rect_arrays: dict[str, np.ndarray], rects: Rectangles, origin_ns: int
) -> dict[str, np.ndarray]:
    """Columns of the instances that idle and waiting rectangles are of."""
    of_wait_R = (rect_arrays["row"] > HOST) & (rects.ref_R >= 0)
    used, index = np.unique(rects.ref_R[of_wait_R], return_inverse=True)
    rect_arrays["ref"][of_wait_R] = index
    groups = np.unique(instances.group_W)
    return {
        "wait_rank": instances.late_rank_W[used].astype(np.int32),
        "wait_start": (instances.begin_W[used] - origin_ns).astype(np.float64),
        "wait_end": (instances.end_W[used] - origin_ns).astype(np.float64),
        "wait_latest": (instances.latest_W[used] - origin_ns).astype(np.float64),
        "wait_group": np.searchsorted(groups, instances.group_W[used]).astype(np.int32),
        "wait_seq": instances.seq_W[used].astype(np.int32),
        "wait_src": instances.src_W[used].astype(np.int32),
        "wait_dst": instances.dst_W[used].astype(np.int32),
    }


def _window_arrays(windows: StepWindows, origin_ns: int) -> dict[str, np.ndarray]:
    windows = take(windows, windows.step_C != NO_STEP)
    return {
        "step_lane": windows.lane_C.astype(np.uint16),
        "step": windows.step_C.astype(np.int32),
        "step_begin": (windows.begin_C - origin_ns).astype(np.float64),
        "step_end": (windows.end_C - origin_ns).astype(np.float64),
        "step_finished": windows.finished_C.astype(np.uint8),
    }

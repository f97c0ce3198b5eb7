"""How lanes are drawn of ranks with collectives but no span and no step: Flight Recorder dumps.

Their collectives are drawn as communication, one line per group, each until the next of its group
on that rank began: a communicator works them off in order. What nobody saw end lasts to the end of
the record. A rank that has spans is never among them, so nothing is drawn twice.

Shape suffixes: S spans, E pieces of time, R rectangles.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from app.views.timeline.lod import MOST_LEVELS, Pieces, Rectangles
from app.views.timeline.span_table import SpanTable, dictionary, ints, lane_of
from app.views.timeline.tile_arrays import COMM, line
from ingest.intervals import Bools, Ints, Segments
from trace_hooks.schema import KINDS


def by_group(
    shown: Pieces, level_E: Ints, table: SpanTable, segments: Segments, is_collective_S: Bools
) -> tuple[Pieces, Ints]:
    """Pieces and their levels, with one line per group for the spans of such lanes.

    segments: whose each instant of a track is (lod.owned).
    """
    others = np.flatnonzero(~is_collective_S[shown.ref_E])
    own = np.flatnonzero(is_collective_S[segments.owner_E])
    span_E = segments.owner_E[own]
    names = ("row_E", "begin_E", "end_E", "kind_E", "ref_E")
    kept = Pieces(*(getattr(shown, name)[others] for name in names))
    lines = Pieces(
        table.lane_S[span_E] * 3 + COMM,
        segments.begin_E[own],
        segments.end_E[own],
        table.kind_S[span_E],
        span_E,
    )
    level_S = _levels(table, is_collective_S)
    return Pieces.joined([kept, lines]), np.concatenate((level_E[others], level_S[span_E]))


def _levels(table: SpanTable, is_collective_S: Bools) -> Ints:
    """Level of each span's group: the same kinds at the same height in all lanes."""
    chosen = np.flatnonzero(is_collective_S)
    places, index = np.unique(
        np.stack((table.lane_S[chosen], table.kind_S[chosen], table.track_S[chosen])),
        axis=1,
        return_inverse=True,
    )
    lane_G, kind_G, _ = places
    first_G = np.ones(lane_G.size, dtype=np.bool_)
    first_G[1:] = (np.diff(lane_G) != 0) | (np.diff(kind_G) != 0)
    number_G = np.arange(lane_G.size) - np.maximum.accumulate(
        np.where(first_G, np.arange(lane_G.size), 0)
    )
    height = np.zeros(len(KINDS) + 1, dtype=np.int64)
    np.maximum.at(height, kind_G + 1, number_G + 1)
    level_S = np.zeros(len(table), dtype=np.int64)
    level_G = np.minimum(np.cumsum(height)[kind_G] + number_G, MOST_LEVELS - 1)
    level_S[chosen] = level_G[index.reshape(-1)]
    return level_S


def bin_rectangles(rows: pa.Table, ranks: tuple[int, ...], t0_ns: int, bin_ns: int) -> Rectangles:
    """Rows of sql/collective_bins.sql: more collectives than can be drawn one by one, those of each
    `bin_ns` as one rectangle.
    """
    kind_R, kinds = dictionary(rows, "kind")
    kind_R = np.array([KINDS.index(kind) for kind in kinds] or [0])[kind_R]
    level_R = np.searchsorted(np.unique(kind_R), kind_R)
    lane_R, begin_R = lane_of(ints(rows, "rank"), ranks), ints(rows, "begin_ns") - t0_ns
    end_R = np.maximum(ints(rows, "end_ns") - t0_ns, begin_R + 1)
    return Rectangles(
        line(lane_R, COMM, level_R),
        begin_R,
        end_R,
        kind_R,
        np.full(begin_R.size, -1),
        np.maximum(ints(rows, "num_collectives"), 2),
        ints(rows, "time_ns"),
        float(bin_ns),
    )

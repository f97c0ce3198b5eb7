"""Lanes of ranks that recorded collectives but no span and no step: Flight Recorder dumps.

Their collectives are drawn as communication, one line per group, each until the next of its group
on that rank began: a communicator works them off in order. What nobody saw end lasts to the end of
the record. A rank that has spans is never among them, so nothing is drawn twice.

Shape suffixes: S spans, E pieces of time, R rectangles.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from app.views.timeline.lanes import Place
from app.views.timeline.lod import MOST_LEVELS, MOST_RECTANGLES, Pieces, Rectangles
from app.views.timeline.span_table import NO_STEP, SpanTable, StepWindows, dictionary, ints, lane_of
from app.views.timeline.tile_arrays import COMM, line
from ingest.intervals import Bools, Ints, Segments
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import KINDS, UNKNOWN

_NOT_OVER = np.iinfo(np.int64).min
_ROOM = 20
"""What is open at the end is drawn a 20th of the record beyond it, or the newest would have no
length."""


def without_steps(
    run: Run, attempt: int, ranks: list[int], stop: Stop | None = None
) -> dict[int, int]:
    """Ranks without a step or span and how many collectives each has; empty where none has any."""
    rows = run.ask("ranks_without_steps", ranks=_text(ranks), attempt=attempt, stop=stop)
    return {row["rank"]: row["num_collectives"] for row in rows.to_pylist()}


def recorded(
    run: Run, attempt: int, alone: Mapping[int, int], stop: Stop | None = None
) -> tuple[int, int]:
    """From when to when such ranks have collectives, ns since t0."""
    rows = run.ask("collective_extent", **_asked([*alone]), attempt=attempt, stop=stop).to_pylist()
    row, t0_ns = rows[0], run.info["created_ns"]
    room_ns = (row["end_ns"] - row["begin_ns"]) // _ROOM + 1 if row["num_open"] else 0
    return row["begin_ns"] - t0_ns, row["end_ns"] + room_ns - t0_ns


def spans(
    run: Run,
    attempt: int,
    lanes: list[Place],
    alone: Mapping[int, int],
    window_ns: tuple[int, int],
    until_ns: int,
    stop: Stop | None = None,
) -> SpanTable:
    """Their collectives in a window, ns since t0; what has not ended lasts to `until_ns`."""
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    rows = run.ask(
        "window_collectives",
        **_asked([rank for rank in ranks if rank in alone]),
        attempt=attempt,
        begin_ns=window_ns[0] + t0_ns,
        end_ns=window_ns[1] + t0_ns,
        stop=stop,
    )
    begin_S, end_S = ints(rows, "begin_ns") - t0_ns, ints(rows, "end_ns", _NOT_OVER)
    open_S = end_S == _NOT_OVER
    end_S = np.maximum(np.where(open_S, until_ns, end_S - t0_ns), begin_S + 1)
    kind_S, kinds = dictionary(rows, "kind")
    name_S, names = dictionary(rows, "name")
    group_S, groups = dictionary(rows, "group_id")
    unknown_S = np.full(begin_S.size, UNKNOWN, dtype=np.int64)
    return SpanTable(
        lane_of(ints(rows, "rank"), ranks),
        begin_S,
        end_S,
        unknown_S,
        np.array([KINDS.index(kind) for kind in kinds] or [0])[kind_S],
        name_S,
        group_S,
        ints(rows, "step"),
        unknown_S,
        unknown_S,
        np.zeros(begin_S.size, dtype=np.bool_),
        group_S,
        ints(rows, "seq"),
        ints(rows, "peer"),
        ints(rows, "num_bytes"),
        open_S,
        names,
        groups,
    )


def windows(
    lanes: list[Place],
    alone: Mapping[int, int],
    window_ns: tuple[int, int],
    extent_ns: tuple[int, int],
) -> StepWindows:
    """What stands for the step of such a lane: all of the record.

    Its number of spans is about that of the collectives in the window.
    """
    own = [(lane, alone[place.rank]) for lane, place in enumerate(lanes) if place.rank in alone]
    lane_C = np.array([lane for lane, _ in own], dtype=np.int64)
    begin_ns, end_ns = extent_ns
    seen_ns = min(window_ns[1], end_ns) - max(window_ns[0], begin_ns)
    share = min(max(seen_ns / max(end_ns - begin_ns, 1), 0), 1)
    return StepWindows(
        lane_C,
        np.full(lane_C.size, NO_STEP),
        np.full(lane_C.size, begin_ns),
        np.full(lane_C.size, end_ns),
        np.zeros(lane_C.size, dtype=np.bool_),
        np.array([int(count * share) for _, count in own], dtype=np.int64),
    )


def by_group(
    shown: Pieces, level_E: Ints, table: SpanTable, segments: Segments, alone_S: Bools
) -> tuple[Pieces, Ints]:
    """Pieces and their levels with those of the spans `alone_S` replaced: one line per group.

    segments: whose each instant of a track is (lod.owned).
    """
    others = np.flatnonzero(~alone_S[shown.ref_E])
    own = np.flatnonzero(alone_S[segments.owner_E])
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
    level_S = _levels(table, alone_S)
    return Pieces.joined([kept, lines]), np.concatenate((level_E[others], level_S[span_E]))


def _levels(table: SpanTable, alone_S: Bools) -> Ints:
    """Level of each span's group: the same kinds at the same height in all lanes."""
    chosen = np.flatnonzero(alone_S)
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


def pooled(
    run: Run,
    attempt: int,
    lanes: list[Place],
    alone: Mapping[int, int],
    window_ns: tuple[int, int],
    pixel_ns: float,
    stop: Stop | None = None,
) -> Rectangles:
    """More collectives than can be looked at one by one: those of a pixel as one rectangle."""
    ranks, t0_ns = tuple(place.rank for place in lanes), run.info["created_ns"]
    own = [rank for rank in ranks if rank in alone]
    least_ns = (window_ns[1] - window_ns[0]) * len(own) / MOST_RECTANGLES
    bin_ns = max(int(np.ceil(max(pixel_ns, least_ns))), 1)
    rows = run.ask(
        "collective_bins",
        **_asked(own),
        attempt=attempt,
        begin_ns=window_ns[0] + t0_ns,
        end_ns=window_ns[1] + t0_ns,
        bin_ns=bin_ns,
        stop=stop,
    )
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


def _asked(ranks: list[int]) -> dict[str, str | int]:
    return {"ranks": _text(ranks), "rank_min": min(ranks), "rank_max": max(ranks)}


def _text(ranks: list[int]) -> str:
    return ",".join(map(str, ranks))

"""What lanes spent a window of time on, by kind; members of a collective; spans found by name."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from app.views.timeline.lanes import MOST_AT_ONCE, Place
from app.views.timeline.lod import owned
from app.views.timeline.query import LaneQuery
from app.views.timeline.span_table import Instances, SpanTable, StepWindows
from app.views.timeline.waits import IDLE_KINDS, idle
from app.views.timeline.window import Extent, Window
from ingest.errors import UserError
from ingest.intervals import pieces
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema import KINDS

MOST_FOUND = 500


def area(
    run: Run,
    attempt: int,
    lanes: list[Place],
    window: Window,
    have: Extent,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Sums of `sums` for a window, as JSON: {ranks, kinds, time_ns, count, waited_for}."""
    lanes = lanes[:MOST_AT_ONCE]
    recorded = LaneQuery(run, attempt, lanes, window, have, stop).recorded()
    made = sums(*recorded, window, len(lanes))
    return {"ranks": [place.rank for place in lanes], "kinds": [*KINDS, *IDLE_KINDS], **made}


def sums(
    spans: SpanTable, instances: Instances, windows: StepWindows, window: Window, num_lanes: int
) -> dict[str, Any]:
    """Time and number of spans per lane (rows) and kind (columns), and who was waited for.

    Time of a kind is the union over tracks, as in the rollups; idle kinds count pieces.
    """
    segments = owned(spans)
    owner = segments.owner_E
    begin_E = np.maximum(segments.begin_E, window.begin_ns)
    end_E = np.minimum(segments.end_E, window.end_ns)
    lane_E, from_E, to_E, bits_E = pieces(
        spans.lane_S[owner], begin_E, end_E, np.int64(1) << spans.kind_S[owner]
    )
    time = np.zeros((num_lanes, len(KINDS) + len(IDLE_KINDS)), dtype=np.int64)
    for kind in range(len(KINDS)):
        has_E = (bits_E >> kind & 1).astype(bool)
        np.add.at(time[:, kind], lane_E[has_E], (to_E - from_E)[has_E])
    count = np.zeros_like(time)
    begun = (spans.begin_S >= window.begin_ns) & (spans.begin_S < window.end_ns)
    np.add.at(count, (spans.lane_S[begun], spans.kind_S[begun]), 1)
    empty = idle(spans, segments, windows.clipped(window.begin_ns, window.end_ns), instances)
    idle_begin = np.maximum(empty.begin_E, window.begin_ns)
    idle_ns = np.maximum(np.minimum(empty.end_E, window.end_ns) - idle_begin, 0)
    np.add.at(time, (empty.lane_E, empty.kind_E), idle_ns)
    np.add.at(count, (empty.lane_E, empty.kind_E), (idle_ns > 0).astype(np.int64))
    late = empty.instance_E >= 0
    ranks, index = np.unique(instances.late_rank_W[empty.instance_E[late]], return_inverse=True)
    waited = np.bincount(index, idle_ns[late], ranks.size)
    worst = np.argsort(-waited, kind="stable")
    return {
        "time_ns": time.tolist(),
        "count": count.tolist(),
        "waited_for": [{"rank": int(ranks[i]), "time_ns": int(waited[i])} for i in worst],
    }


def members(
    run: Run,
    attempt: int,
    group: int,
    seq: int,
    src: int | None,
    dst: int | None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Members of one collective instance, in the order they came; times ns since t0."""
    rows = run.ask(
        "collective_members", group_id=group, seq=seq, src=src, dst=dst, attempt=attempt, stop=stop
    ).to_pylist()
    t0_ns = run.info["created_ns"]
    for row in rows:
        for name in ("start_ns", "aligned_start_ns", "aligned_end_ns"):
            row[name] = None if row[name] is None else row[name] - t0_ns
    return {"members": rows}


def found(
    run: Run, attempt: int, ranks: list[int], text: str, have: Extent, stop: Stop | None = None
) -> dict[str, Any]:
    """Spans whose name contains a text: at most MOST_FOUND of them, and how many there are.

    Of ranks without spans: collectives whose operation does.
    """
    if not text.strip():
        raise UserError("the name to search for is empty")
    without_spans = [rank for rank in ranks if rank in have.only_collectives]
    others = [rank for rank in ranks if rank not in have.only_collectives]
    parts = [
        _search(run, attempt, others, text, stop),
        _search(run, attempt, without_spans, text, stop, "collective_search"),
    ]
    rows = sorted(chain(*parts), key=lambda row: (row["begin_ns"], row["rank"]))
    t0_ns = run.info["created_ns"]
    return {
        "num_found": sum(part[0]["num_found"] for part in parts if part),
        "spans": [
            {
                "rank": row["rank"],
                "begin": row["begin_ns"] - t0_ns,
                "dur": row["dur_ns"],
                "kind": row["kind"],
                "name": row["name"],
                "step": row["step"],
            }
            for row in rows[:MOST_FOUND]
        ],
    }


def _search(
    run: Run,
    attempt: int,
    ranks: list[int],
    text: str,
    stop: Stop | None,
    question: str = "span_search",
) -> list[dict[str, Any]]:
    if not ranks:
        return []
    rows: list[dict[str, Any]] = run.ask(
        question,
        ranks=",".join(map(str, ranks)),
        text=text,
        rank_min=min(ranks),
        rank_max=max(ranks),
        attempt=attempt,
        top=MOST_FOUND,
        stop=stop,
    ).to_pylist()
    return rows

"""Idle time of a lane and its reasons: who was waited for, the schedule, or nothing recorded.

Rules of the metric `bubble` where a lane is in communication: inside a step window such an instant
that is no compute, no data and no transfer is bubble. The metric also counts gc, checkpoints, host
code and copies (`bubble_other_ns`); here they are no idle time, for their own spans show them.
While the lane waits in communication for a late last arriver it waits for that rank; where that
rank sits on another pipeline stage it may only follow the schedule, so that is a kind of its own.
Other waiting in communication is the schedule's. What no span covers is not visible, never bubble.
Communication without a verdict (members missing, clocks not aligned) is neither; so is all of a
lane of which no instance has one.

Shape suffixes: S spans, C step windows, W instances, N intervals, E pieces of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.views.timeline.span_table import Instances, SpanTable, StepWindows
from ingest.intervals import Bools, Ints, Segments, pieces
from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS

IDLE_KINDS = ("waiting", "upstream", "bubble", "not_visible")
"""waiting: for a rank of the same stage; upstream: for a rank of another pipeline stage."""
WAITING, UPSTREAM, BUBBLE, NOT_VISIBLE = (len(KINDS) + i for i in range(4))

_BITS = (
    "window",
    "covered",
    "compute",
    "data_wait",
    "data_fetch",
    "comm",
    "unjudged",
    "transfer",
    "late",
)
_BIT = {name: np.int64(1 << number) for number, name in enumerate(_BITS)}
_COMPUTE = np.array([kind in COMPUTE_KINDS for kind in KINDS])
_COMM = np.array([kind in COMM_KINDS for kind in KINDS])
_KERNEL = KINDS.index("kernel")


@dataclass(frozen=True)
class Idle:
    """Pieces of time of lanes; kind one of the four numbers above; instance: which collective it
    waits in, -1 none.
    """

    lane_E: Ints
    begin_E: Ints
    end_E: Ints
    kind_E: Ints
    instance_E: Ints


def has_kernels(spans: SpanTable) -> Bools:
    """Spans of a (lane, step) whose compute is its kernels: host-side forward is none there."""
    is_kernel_S = spans.kind_S == _KERNEL
    if not is_kernel_S.any():
        return np.zeros(len(spans), dtype=np.bool_)
    width = int(spans.step_S.max(initial=0)) + 2
    key_S = spans.lane_S * width + spans.step_S + 1
    return np.isin(key_S, np.unique(key_S[is_kernel_S]))


def waits(instances: Instances) -> Idle:
    """When each lane waited for a late last arriver, whatever else it did meanwhile."""
    late_W = np.flatnonzero(
        instances.known_W & (instances.late_rank_W >= 0) & (instances.latest_W > instances.begin_W)
    )
    end_E = np.minimum(instances.latest_W[late_W], instances.end_W[late_W])
    kind_E = np.where(instances.crossing_W[late_W], UPSTREAM, WAITING)
    return Idle(instances.lane_W[late_W], instances.begin_W[late_W], end_E, kind_E, late_W)


def idle(spans: SpanTable, segments: Segments, windows: StepWindows, instances: Instances) -> Idle:
    """Why each lane was idle inside its step windows; times in which it was not have no piece.

    segments: whose each instant of a track is (lod.owned).
    """
    late = waits(instances)
    bits_E = _span_bits(spans)[segments.owner_E]
    unknown, moved = ~instances.known_W, instances.moved_W
    parts = [
        (windows.lane_C, windows.begin_C, windows.end_C, _BIT["window"]),
        (spans.lane_S[segments.owner_E], segments.begin_E, segments.end_E, bits_E),
        (
            instances.lane_W[unknown],
            instances.begin_W[unknown],
            instances.end_W[unknown],
            _BIT["unjudged"],
        ),
        (
            instances.lane_W[moved],
            instances.latest_W[moved],
            instances.first_end_W[moved],
            _BIT["transfer"],
        ),
        (late.lane_E, late.begin_E, late.end_E, _BIT["late"]),
    ]
    lane_E, begin_E, end_E, bits_E = pieces(
        *(np.concatenate([part[i] for part in parts]) for i in range(3)),
        np.concatenate([np.broadcast_to(part[3], part[0].shape) for part in parts]),
    )
    kind_E = _kinds(bits_E)
    judged = np.unique(instances.lane_W[instances.known_W])
    kept_E = (kind_E >= 0) & ((kind_E != BUBBLE) | np.isin(lane_E, judged))
    lane_E, begin_E, end_E, kind_E = (a[kept_E] for a in (lane_E, begin_E, end_E, kind_E))
    instance_E = np.where(kind_E == WAITING, _covering(late, lane_E, begin_E), -1)
    is_known_E = instance_E >= 0
    kind_E[is_known_E] = np.where(instances.crossing_W[instance_E[is_known_E]], UPSTREAM, WAITING)
    return Idle(lane_E, begin_E, end_E, kind_E, instance_E)


def _span_bits(spans: SpanTable) -> Ints:
    by_kernel_S = has_kernels(spans)
    compute_S = np.where(by_kernel_S, spans.kind_S == _KERNEL, _COMPUTE[spans.kind_S])
    bits_S = np.full(len(spans), _BIT["covered"])
    for chosen_S, name in (
        (compute_S, "compute"),
        (_COMM[spans.kind_S], "comm"),
        (spans.kind_S == KINDS.index("data_wait"), "data_wait"),
        (spans.kind_S == KINDS.index("data_fetch"), "data_fetch"),
    ):
        bits_S |= np.where(chosen_S, _BIT[name], 0)
    return bits_S


def _kinds(bits_E: Ints) -> Ints:
    """What each piece shows, -1 nothing."""

    def has(*names: str) -> Bools:
        return np.asarray((bits_E & sum(int(_BIT[name]) for name in names)) != 0)

    blocked_E = has("data_wait") | (has("data_fetch") & ~has("compute", "comm"))
    bubble_E = has("covered") & ~has("compute", "transfer") & ~blocked_E & has("comm")
    bubble_E &= ~has("unjudged")
    kind_E = np.full(bits_E.size, -1, dtype=np.int64)
    kind_E[bubble_E] = BUBBLE
    kind_E[bubble_E & has("late")] = WAITING
    kind_E[~has("covered")] = NOT_VISIBLE
    return np.where(has("window"), kind_E, -1)


def _covering(late: Idle, lane_E: Ints, at_E: Ints) -> Ints:
    """Instance of the wait of that lane begun last before `at`; -1 none."""
    if not late.lane_E.size:
        return np.full(lane_E.size, -1, dtype=np.int64)
    origin = min(int(late.begin_E.min()), int(at_E.min(initial=0)))
    width = max(int(late.begin_E.max()), int(at_E.max(initial=0))) - origin + 1
    key = late.lane_E * width + (late.begin_E - origin)
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], lane_E * width + (at_E - origin), side="right") - 1
    found = order[np.maximum(place, 0)]
    fits_E = (place >= 0) & (late.lane_E[found] == lane_E) & (late.end_E[found] > at_E)
    return np.where(fits_E, late.instance_E[found], -1)

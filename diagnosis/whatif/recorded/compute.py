"""Forwards and backwards of a recorded job, one per micro-batch and virtual stage.

Shape suffixes: C compute op; G (step, dp rank, member, stage).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.operations import Bools, Ints, NotAnswerable
from diagnosis.whatif.optypes import BACKWARD, FORWARD
from diagnosis.whatif.recorded.rows import Rows, Spans, joined_key, numbered, places

WITHIN_CELLS = ("tp_comm", "ep_comm", "cp_comm", "other_comm")
"""Kinds of collectives in which members of a cell wait for each other."""

OVER_REPLICAS = ("dp_comm", "other_comm")
"""A framework that shards parameters waits for other replicas in the middle of its compute."""


@dataclass
class Compute:
    """Sorted by group, direction (forward first) and begin; times in ns.

    `virtual_C`: virtual stage; `seq_C`: number within group and direction; `busy_C`: length of all
    its spans together, gaps between them left out.
    """

    group_C: Ints
    is_forward_C: Bools
    virtual_C: Ints
    microbatch_C: Ints
    begin_C: Ints
    busy_C: Ints
    seq_C: Ints
    num_stages: int
    notes: tuple[str, ...]

    @property
    def end_C(self) -> Ints:
        """When each has ended."""
        return self.begin_C + self.busy_C

    @property
    def num_virtual(self) -> int:
        """Virtual stages of the pipeline."""
        return (int(self.virtual_C.max()) // self.num_stages + 1) * self.num_stages

    def add_to(self, rows: Rows, inside_C: Ints, own_C: Ints | None) -> None:
        """Append all of them as ops; `inside_C`: of collectives over replicas within them, `own_C`:
        what their ranks compute themselves (None: unknown), ns.
        """
        own_C = self.busy_C if own_C is None else own_C
        for optype, chosen in ((FORWARD, self.is_forward_C), (BACKWARD, ~self.is_forward_C)):
            if chosen.any():
                rows.add(
                    optype,
                    self.group_C[chosen],
                    self.seq_C[chosen],
                    self.virtual_C[chosen] // self.num_stages,
                    self.begin_C[chosen],
                    self.end_C[chosen],
                    inside_C[chosen],
                    own_C[chosen],
                )


def compute_of(spans: Spans) -> Compute:
    """Outermost forwards and backwards; several of one micro-batch (its loss, say) are one op.

    Raises NotAnswerable where there are none or stages do not follow each other in a circle.
    """
    rows = spans.outermost(spans.rows_of_kind("forward", "backward", "wgrad"))
    notes = []
    if len(spans.rows_of_kind("wgrad")):
        notes.append(
            "Gradients of weights computed apart (zero-bubble schedules) count as part of the "
            "backward of their micro-batch."
        )
    named = spans.microbatch_N[rows] >= 0
    if named.any():  # the others are work after the pipeline, such as the reduction of gradients
        rows = rows[named]
    if not len(rows):
        raise NotAnswerable("no forward or backward was recorded in any finished step")
    virtual = _virtual_stages(spans, rows)
    is_forward = np.isin(rows, spans.rows_of_kind("forward"))
    part = spans.microbatch_N[rows] if named.any() else np.arange(len(rows))
    key = joined_key(spans.group_N[rows], is_forward.astype(np.int64), virtual, part)
    _, at, inverse = np.unique(key, return_index=True, return_inverse=True)
    begin = np.full(len(at), np.iinfo(np.int64).max)
    np.minimum.at(begin, inverse, spans.begin_N[rows])
    busy = np.bincount(inverse, spans.end_N[rows] - spans.begin_N[rows]).astype(np.int64)
    group, forward = spans.group_N[rows][at], is_forward[at]
    order = np.lexsort((begin, ~forward, group))
    return Compute(
        group[order],
        forward[order],
        virtual[at][order],
        spans.microbatch_N[rows][at][order],
        begin[order],
        busy[order],
        numbered(group[order] * 2 + ~forward[order]),
        spans.sizes.pp,
        tuple(notes),
    )


def own_of(spans: Spans, compute: Compute) -> Ints | None:
    """What each rank computes itself, ns: without the collectives within its ops, in which it waits
    for whoever is late. None: it is unknown how long members of a cell wait for each other, or each
    cell is one rank.
    """
    if spans.num_members == 1:
        return None
    within_C = inside_of(spans, compute, WITHIN_CELLS)
    if not within_C.any():
        return None
    own_C = compute.busy_C - within_C - inside_of(spans, compute, ("dp_comm",))
    computing_C: Ints = np.maximum(own_C, 0)
    return computing_C


def inside_of(spans: Spans, compute: Compute, kinds: tuple[str, ...]) -> Ints:
    """How long collectives of these kinds run within each compute op, on its own track, ns."""
    tracks = spans.track_N[spans.rows_of_kind("forward", "backward", "wgrad")]
    rows = spans.rows_of_kind(*kinds)
    rows = spans.outermost(rows[np.isin(spans.track_N[rows], tracks)])
    by_begin = np.lexsort((compute.begin_C, compute.group_C))
    begins, at, size = places(spans.group_N, compute.begin_C[by_begin], spans.begin_N[rows])
    place = np.searchsorted(
        compute.group_C[by_begin] * size + begins, spans.group_N[rows] * size + at, side="right"
    )
    op = by_begin[np.maximum(place - 1, 0)]
    until = np.minimum(spans.end_N[rows], compute.end_C[op])
    within = (compute.group_C[op] == spans.group_N[rows]) & (
        spans.begin_N[rows] >= compute.begin_C[op]
    )
    lasting = np.where(within, np.maximum(until - spans.begin_N[rows], 0), 0)
    inside = np.bincount(op, lasting, len(compute.group_C)).astype(np.int64)
    return np.minimum(inside, compute.busy_C)


def _virtual_stages(spans: Spans, rows: Ints) -> Ints:
    stage, chunk = spans.stage(spans.group_N[rows]), spans.chunk_N[rows]
    virtual = np.where(chunk >= 0, chunk, stage)
    if ((virtual % spans.sizes.pp) != stage).any():
        raise NotAnswerable(
            "virtual stages do not go round the stages (virtual stage modulo stages is not the "
            "stage), as the replay assumes"
        )
    return virtual

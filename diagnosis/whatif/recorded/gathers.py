"""Gathers of parameters of a recorded job: one all-gather per chunk, before its first forward.

A framework gathers module by module, before the forward or inside it. A rank's gathers of a chunk
become one op whose transfer is the sum of theirs, each from its last member's begin on; what they
took inside the forward is taken off it.

Shape suffixes: I recorded collective, C compute op, A all-gather.
"""

from __future__ import annotations

import numpy as np

from diagnosis.whatif.operations import Ints
from diagnosis.whatif.optypes import ALL_GATHER
from diagnosis.whatif.recorded.compute import Compute
from diagnosis.whatif.recorded.rows import Rows, Spans, joined_key, latest, numbered, places


def add_gathers(rows: Rows, spans: Spans, compute: Compute) -> None:
    """Append the all-gathers and shorten the first forwards of `compute` in place."""
    found_I, forward_I = _gathers(spans, compute)
    if not len(found_I):
        return
    op_A, at_I = np.unique(forward_I, return_inverse=True)
    begin_I, end_I = spans.begin_N[found_I], spans.end_N[found_I]
    begin_A = np.full(len(op_A), np.iinfo(np.int64).max)
    np.minimum.at(begin_A, at_I, begin_I)
    stage_A = _over_replicas(spans, compute, op_A)
    together_A = latest(stage_A, begin_A)
    number_I = numbered(at_I)
    ready_I = latest(stage_A[at_I] * (number_I.max() + 1) + number_I, begin_I)
    transfer_A = _sums(at_I, np.maximum(end_I - ready_I, 0))
    inside_I = begin_I >= compute.begin_C[forward_I]
    nested_A = _sums(at_I, np.where(inside_I, end_I - begin_I, 0))
    nested_A = np.minimum(nested_A, compute.busy_C[op_A])
    compute.begin_C[op_A] += nested_A
    compute.busy_C[op_A] -= nested_A
    chunk_A = compute.virtual_C[op_A] // compute.num_stages
    rows.add(
        ALL_GATHER,
        compute.group_C[op_A],
        chunk_A,
        chunk_A,
        begin_A,
        together_A + transfer_A,
        own=transfer_A,
    )


def _gathers(spans: Spans, compute: Compute) -> tuple[Ints, Ints]:
    """Collectives before or inside the first forward of a chunk, and that forward; in order."""
    found_I = spans.rows_of_kind("dp_comm")
    forwards = np.flatnonzero(compute.is_forward_C)
    if not len(found_I) or not len(forwards):
        return found_I[:0], found_I[:0]
    forward_I = _forward_at(spans, compute, forwards, found_I)
    is_first_C = np.zeros(len(compute.group_C), np.bool_)
    is_first_C[_firsts(compute, forwards)] = True
    inside_I = spans.begin_N[found_I] >= compute.begin_C[forward_I]
    # inside, but on another track, it runs next to the forward
    on_other_track_I = ~np.isin(
        spans.track_N[found_I], spans.track_N[spans.rows_of_kind("forward")]
    )
    chosen = (forward_I >= 0) & is_first_C[forward_I] & ~(inside_I & on_other_track_I)
    found_I, forward_I = found_I[chosen], forward_I[chosen]
    order = np.lexsort((spans.begin_N[found_I], forward_I))
    return found_I[order], forward_I[order]


def _forward_at(spans: Spans, compute: Compute, forwards: Ints, found_I: Ints) -> Ints:
    """The forward of its group in which each begins, else the next one; -1 none."""
    group_I = spans.group_N[found_I]
    ends, begins, size = places(spans.group_N, compute.end_C[forwards], spans.begin_N[found_I])
    # forwards are sorted by group and begin, so (group, end) grows
    at = np.searchsorted(
        compute.group_C[forwards] * size + ends, group_I * size + begins, side="right"
    )
    forward_I = forwards[np.minimum(at, len(forwards) - 1)]
    same = (at < len(forwards)) & (compute.group_C[forward_I] == group_I)
    return np.where(same, forward_I, -1)


def _firsts(compute: Compute, forwards: Ints) -> Ints:
    """First forward of each chunk of each group."""
    key = joined_key(compute.group_C[forwards], compute.virtual_C[forwards])
    return forwards[np.unique(key, return_index=True)[1]]


def _over_replicas(spans: Spans, compute: Compute, op_A: Ints) -> Ints:
    """One number per (step, member, virtual stage): who takes part in one all-gather shares it."""
    group_A = compute.group_C[op_A]
    return joined_key(spans.step(group_A), spans.member(group_A), compute.virtual_C[op_A])


def _sums(at: Ints, values: Ints) -> Ints:
    return np.bincount(at, values).astype(np.int64)

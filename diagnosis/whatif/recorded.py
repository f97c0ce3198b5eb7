"""Spans of a recorded job as the operations of the paper.

What is assumed (docs/whatif.md tells it to users): the first rank of a (dp rank, stage) stands for
the cell, so a tensor-parallel group is one worker; durations are wall time, tensor-parallel waits
and all that interrupts compute included; collectives over replicas before the first forward of a
chunk, or inside it on its own track, are one all-gather; what of them lies behind the last compute
is one reduce-scatter; collectives over the whole job behind it are the gradient norm.

Shape suffixes: N row of the spans, C compute op, G (step, dp rank, stage).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.whatif.operations import Ints, Sizes
from diagnosis.whatif.optypes import ALL_GATHER, CLIP, OPTIMIZER, REDUCE_SCATTER
from diagnosis.whatif.recorded_compute import Compute, compute_of
from diagnosis.whatif.recorded_rows import Rows, Spans, joined_key
from diagnosis.whatif.recorded_transfers import add_transfers

_NO_GRADIENTS = "Collectives over replicas are not recorded: replicas wait for nobody."
_NO_OPTIMIZER = "The optimizer is not recorded: a step ends with its last communication or compute."


def recorded_operations(spans: pa.Table, sizes: Sizes) -> tuple[pa.Table, tuple[str, ...]]:
    """Rows for `operations.dense`, and notes, of the answer of the question `whatif_spans`.

    Raises NotAnswerable: nothing recorded, coordinates or clocks unknown, micro-batches unknown.
    """
    recorded = Spans.of(spans, sizes)
    compute = compute_of(recorded)
    rows = Rows()
    notes = list(compute.notes)
    last_G = recorded.last_of(compute.group_C, compute.end_C)
    _add_gathers(rows, recorded, compute)
    notes += add_transfers(rows, recorded, compute)
    compute.add_to(rows)
    notes += _add_tail(rows, recorded, last_G)
    if sizes.has_dp_communication and not len(recorded.rows_of_kind("dp_comm")):
        notes.append(_NO_GRADIENTS)
    return rows.to_table(recorded), tuple(notes)


def _add_gathers(rows: Rows, spans: Spans, compute: Compute) -> None:
    """One all-gather per chunk; its time inside the first forward is taken off that forward."""
    found = spans.rows_of_kind("dp_comm")
    forwards = np.flatnonzero(compute.is_forward_C)
    if not len(found) or not len(forwards):
        return
    group, next_C = spans.group_N[found], _forward_at(spans, compute, forwards, found)
    first = np.zeros(len(compute.group_C), np.bool_)
    first[_firsts(compute, forwards)] = True
    chosen = (next_C >= 0) & first[next_C]
    found, next_C = found[chosen], next_C[chosen]
    inside = spans.begin_N[found] >= compute.begin_C[next_C]
    own = np.isin(spans.track_N[found], spans.track_N[spans.rows_of_kind("forward")])
    shown = own | ~inside  # inside on another track it runs beside the forward
    found, next_C, inside = found[shown], next_C[shown], inside[shown]
    if not len(found):
        return
    op, at = np.unique(next_C, return_inverse=True)
    length = np.bincount(at, spans.end_N[found] - spans.begin_N[found]).astype(np.int64)
    begin = np.full(len(op), np.iinfo(np.int64).max)
    np.minimum.at(begin, at, spans.begin_N[found])
    nested = np.bincount(at, np.where(inside, spans.end_N[found] - spans.begin_N[found], 0))
    nested = np.minimum(nested.astype(np.int64), compute.busy_C[op])
    compute.begin_C[op] += nested
    compute.busy_C[op] -= nested
    group, chunk = compute.group_C[op], compute.virtual_C[op] // compute.num_stages
    order = np.lexsort((chunk, group))
    rows.add(
        ALL_GATHER, group[order], chunk[order], chunk[order], begin[order],
        (begin + length)[order],
    )  # fmt: skip


def _forward_at(spans: Spans, compute: Compute, forwards: Ints, found: Ints) -> Ints:
    """Of each row, the forward of its group in which it begins, else the next one; -1 none."""
    base = min(spans.begin_N.min(), compute.begin_C.min())
    length = int(spans.end_N.max()) - base + 2
    # forwards are sorted by group and begin, so (group, end) grows
    ends = compute.group_C[forwards] * length + (compute.end_C[forwards] - base)
    at = np.searchsorted(
        ends, spans.group_N[found] * length + (spans.begin_N[found] - base), "right"
    )
    at_C = forwards[np.minimum(at, len(forwards) - 1)]
    same = (at < len(forwards)) & (compute.group_C[at_C] == spans.group_N[found])
    return np.where(same, at_C, -1)


def _firsts(compute: Compute, forwards: Ints) -> Ints:
    """First forward of each chunk of each group."""
    key = joined_key(compute.group_C[forwards], compute.virtual_C[forwards])
    return forwards[np.unique(key, return_index=True)[1]]


def _add_tail(rows: Rows, spans: Spans, last_G: Ints) -> list[str]:
    """Reduce-scatter, gradient norm and optimizer behind the last compute of each group."""
    optimizers = spans.outermost(spans.rows_of_kind("optimizer"))
    optimizers = optimizers[spans.end_N[optimizers] > last_G[spans.group_N[optimizers]]]
    stepping_G = spans.first_of(spans.group_N[optimizers], spans.begin_N[optimizers])
    stepped_G = spans.last_of(spans.group_N[optimizers], spans.end_N[optimizers])
    free_G = last_G.copy()
    replicas = _behind(spans, "dp_comm", last_G, stepping_G)
    _add_merged(rows, spans, REDUCE_SCATTER, replicas, free_G)
    job = _behind(spans, "other_comm", last_G, np.where(len(optimizers), stepped_G, stepping_G))
    _add_merged(rows, spans, CLIP, job, free_G)
    groups = np.flatnonzero(last_G >= spans.begin_N.min())
    if len(optimizers):
        groups = groups[stepping_G[groups] < np.iinfo(np.int64).max]
        begin_G, end_G = np.maximum(free_G, stepping_G), np.maximum(free_G, stepped_G)
    else:
        begin_G = end_G = free_G
    rows.add(OPTIMIZER, groups, np.zeros_like(groups), -1, begin_G[groups], end_G[groups])
    return [] if len(optimizers) else [_NO_OPTIMIZER]


def _behind(spans: Spans, kind: str, last_G: Ints, until_G: Ints) -> Ints:
    """Rows of a kind that end behind the last compute and begin before `until_G`."""
    found = spans.rows_of_kind(kind)
    group = spans.group_N[found]
    after = (spans.end_N[found] > last_G[group]) & (spans.begin_N[found] < until_G[group])
    return found[after]


def _add_merged(rows: Rows, spans: Spans, optype: str, found: Ints, free_G: Ints) -> None:
    """One op per group from all of them, not before `free_G`, which is moved to its end."""
    if not len(found):
        return
    begin_G = spans.first_of(spans.group_N[found], spans.begin_N[found])
    end_G = spans.last_of(spans.group_N[found], spans.end_N[found])
    groups = np.unique(spans.group_N[found])
    begin = np.maximum(begin_G, free_G)[groups]
    end = np.maximum(begin, end_G[groups])
    rows.add(optype, groups, np.zeros_like(groups), 0, begin, end)
    free_G[groups] = end

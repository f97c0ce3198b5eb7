"""Spans of a recorded job as the operations of the paper.

What is assumed (docs/whatif.md explains it to users): the ranks of a (dp rank, stage), a
tensor-parallel group say, are members of one cell. A cell's op begins when its last member begins
and ends when its last member ends, so it takes what the cell as a whole takes, waits of its members
for each other included. A member's own time is what it needs itself, without its collectives; that
shows which of a cell is slow. Durations are wall time, all that interrupts compute included;
collectives over replicas before the first forward of a chunk, or inside it on its own track, are
one all-gather; what of them lies behind the last compute is one reduce-scatter; collectives over
the whole job behind it are the gradient norm.

Shape suffixes: N row of the spans, C compute op, G (step, dp rank, member, stage).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.whatif.operations import Ints, Sizes
from diagnosis.whatif.optypes import CLIP, OPTIMIZER, REDUCE_SCATTER
from diagnosis.whatif.recorded.cells import cells_of
from diagnosis.whatif.recorded.compute import OVER_REPLICAS, compute_of, inside_of, own_of
from diagnosis.whatif.recorded.gathers import add_gathers
from diagnosis.whatif.recorded.rows import Rows, Spans, joined_key, latest
from diagnosis.whatif.recorded.transfers import add_transfers

_NO_GRADIENTS = "Collectives over replicas are not recorded: replicas wait for nobody."
_NO_OPTIMIZER = "The optimizer is not recorded: a step ends with its last communication or compute."
_MEMBERS_ALIKE = (
    "No collectives between the ranks of a dp rank and stage are recorded inside compute: who of "
    "them makes the others wait is not seen, and the first of them stands for all."
)


def recorded_operations(
    spans: pa.Table, sizes: Sizes, is_whole: bool = False
) -> tuple[pa.Table, tuple[str, ...]]:
    """Rows for `operations.dense`, and notes, of the answer of the question `whatif_spans`.
    `is_whole`: no rank of the job is missing.

    Raises NotAnswerable: nothing recorded, coordinates or clocks unknown, micro-batches unknown.
    """
    recorded = Spans.of(spans, sizes, is_whole)
    compute = compute_of(recorded)
    rows = Rows()
    notes = list(compute.notes)
    last_G = recorded.last_of(compute.group_C, compute.end_C)
    own_C = own_of(recorded, compute)
    if own_C is None and recorded.num_members > 1:
        notes.append(_MEMBERS_ALIKE)
    add_gathers(rows, recorded, compute)
    notes += add_transfers(rows, recorded, compute)
    compute.add_to(rows, inside_of(recorded, compute, OVER_REPLICAS), own_C)
    notes += _add_tail(rows, recorded, last_G)
    if sizes.has_dp_communication and not len(recorded.rows_of_kind("dp_comm")):
        notes.append(_NO_GRADIENTS)
    return cells_of(rows, recorded, are_separate=own_C is not None), tuple(notes)


def _add_tail(rows: Rows, spans: Spans, last_G: Ints) -> list[str]:
    """Reduce-scatter, gradient norm and optimizer behind the last compute of each group."""
    optimizers = spans.outermost(spans.rows_of_kind("optimizer"))
    optimizers = optimizers[spans.end_N[optimizers] > last_G[spans.group_N[optimizers]]]
    stepping_G = spans.first_of(spans.group_N[optimizers], spans.begin_N[optimizers])
    stepped_G = spans.last_of(spans.group_N[optimizers], spans.end_N[optimizers])
    free_G = last_G.copy()
    replicas = _behind(spans, "dp_comm", last_G, stepping_G)
    stage_and_member = np.arange(spans.num_groups) % (spans.num_members * spans.sizes.pp)
    step_G = spans.step(np.arange(spans.num_groups))
    _add_merged(rows, spans, REDUCE_SCATTER, replicas, free_G, (step_G, stage_and_member))
    until_G = stepped_G if len(optimizers) else stepping_G
    job = _behind(spans, "other_comm", last_G, until_G)
    if not len(job):  # where the replicas are the whole job, the norm goes over them
        norms = _behind(spans, "dp_comm", np.maximum(last_G, stepping_G), until_G)
        job = norms[spans.is_named("all_reduce")[norms]]
    _add_merged(rows, spans, CLIP, job, free_G, (step_G,))
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
    rows = spans.rows_of_kind(kind)
    group = spans.group_N[rows]
    after = (spans.end_N[rows] > last_G[group]) & (spans.begin_N[rows] < until_G[group])
    return rows[after]


def _add_merged(
    rows: Rows, spans: Spans, optype: str, ints: Ints, free_G: Ints, over: tuple[Ints, ...]
) -> None:
    """One op per group from all of them, not before `free_G`, which is moved to its end.

    `over`: columns (G) in which groups that take part in the same one are equal.
    """
    if not len(ints):
        return
    begin_G = spans.first_of(spans.group_N[ints], spans.begin_N[ints])
    end_G = spans.last_of(spans.group_N[ints], spans.end_N[ints])
    groups = np.unique(spans.group_N[ints])
    begin = np.maximum(begin_G, free_G)[groups]
    end = np.maximum(begin, end_G[groups])
    ready = latest(joined_key(*(column_G[groups] for column_G in over)), begin)
    rows.add(optype, groups, np.zeros_like(groups), 0, begin, end, own=end - ready)
    free_G[groups] = end

"""Operations of a job's cells, from those of their members.

An op of a cell begins when its last member begins, and ends when its last member ends. Members that
lack operations in a step do not count in it. Shape suffixes: R row of a member, A op of a cell, G
(step, dp rank, member, stage), T member.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.whatif.operations import INSIDE, LAG, RANKS, Bools, Floats, Ints
from diagnosis.whatif.recorded.rows import Rows, Spans

_NS = 1e9
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def cells_of(rows: Rows, spans: Spans, are_separate: bool) -> pa.Table:
    """The table that `operations.dense` reads; times since the first op of each step.

    `are_separate`: whether the own times of rows distinguish the members of a cell.
    """
    columns = rows.columns
    kept_R = _complete(columns[1], spans)
    if not kept_R.all():
        columns = [column_R[kept_R] for column_R in columns]
    type_R, group_R, seq_R, chunk_R, begin_R, end_R, inside_R, own_R = columns
    cell_R = spans.cell(group_R)
    num_cells = spans.num_groups // spans.num_members
    key_R = (type_R * (seq_R.max() + 1) + seq_R) * num_cells + cell_R
    _, first_A, op_R = np.unique(key_R, return_index=True, return_inverse=True)
    begin_A, end_A, inside_A = (_greatest(op_R, c) for c in (begin_R, end_R, inside_R))
    group_A = group_R[first_A]
    step_A = spans.step(group_A)
    first_S = np.full(len(spans.step_S), _GREATEST)
    np.minimum.at(first_S, step_A, begin_A)
    ranks_AT = _ranks(spans)[spans.cell(group_A) % (spans.sizes.dp * spans.sizes.pp)]
    table = {
        "step": spans.step_S[step_A],
        "dp": spans.cell(group_A) // spans.sizes.pp % spans.sizes.dp,
        "stage": spans.stage(group_A),
        "rank": np.where(ranks_AT < 0, _GREATEST, ranks_AT).min(axis=1),
        "optype": pa.array(rows.optypes).take(pa.array(type_R[first_A])),
        "seq": seq_R[first_A],
        "chunk": chunk_R[first_A],
        "start_s": (begin_A - first_S[step_A]) / _NS,
        "duration_s": (np.maximum(end_A, begin_A) - begin_A) / _NS,
        INSIDE: inside_A / _NS,
    }
    if are_separate:
        lag_AT = _lag(op_R, spans.member(group_R), own_R, (len(first_A), spans.num_members))
        table[LAG] = pa.FixedSizeListArray.from_arrays(lag_AT.ravel() / _NS, spans.num_members)
        table[RANKS] = pa.FixedSizeListArray.from_arrays(ranks_AT.ravel(), spans.num_members)
    return pa.table(table)


def _complete(group_R: Ints, spans: Spans) -> Bools:
    """Rows of members that have as many ops as any member of their cell has in that step."""
    num_G = np.bincount(group_R, minlength=spans.num_groups)
    num_LTP = num_G.reshape(-1, spans.num_members, spans.sizes.pp)
    complete_G = (num_LTP == num_LTP.max(axis=1, keepdims=True)).ravel()
    is_complete_R: Bools = complete_G[group_R]
    return is_complete_R


def _greatest(op_R: Ints, values_R: Ints) -> Ints:
    greatest = np.full(int(op_R.max()) + 1, _LEAST)
    np.maximum.at(greatest, op_R, values_R)
    return greatest


def _ranks(spans: Spans) -> Ints:
    """Global ranks of the members of each (dp rank, stage), -1 where there is none."""
    sizes = spans.sizes
    rank_DPT = np.full((sizes.dp * sizes.pp, spans.num_members), -1)
    at = spans.cell(spans.group_N) % (sizes.dp * sizes.pp)
    rank_DPT[at, spans.member(spans.group_N)] = spans.rank_N
    return rank_DPT


def _lag(op_R: Ints, member_R: Ints, own_R: Ints, shape: tuple[int, int]) -> Floats:
    """How much less than the slowest of its cell each member needs, ns; NaN: it has no such op."""
    own_AT = np.full(shape, np.nan)
    own_AT[op_R, member_R] = own_R
    lag_AT: Floats = np.nanmax(own_AT, axis=1, keepdims=True) - own_AT
    return lag_AT

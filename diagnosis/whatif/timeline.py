"""One step as it was, as it is replayed, and as it would be without stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.replay import Scenarios, op_times

_IDEAL, _REPLAYED = 0, 1

Cell = tuple[int, int]
"""Stage, dp rank."""


@dataclass(frozen=True)
class Timeline:
    """Ops of one step on some cells.

    `rows`, cell by cell: stage, dp, rank, optype, seq, chunk (inside the stage, -1 none), then
    begin and end in s since the step's begin: start_s, end_s as measured, replayed_start_s,
    replayed_end_s by the replay of the real times, ideal_start_s, ideal_end_s by that of the ideal
    ones. What lies before the last own_s (ideal_own_s) of an op is waiting for others.
    """

    step: int
    cells: tuple[Cell, ...]
    rows: pa.Table


def replica(prepared: Prepared, dp: int) -> list[Cell]:
    """The cells of one dp rank: all its stages."""
    return [(stage, dp) for stage in range(prepared.ops.sizes.pp)]


def timeline(prepared: Prepared, step: int, cells: Sequence[Cell]) -> Timeline:
    """Real and ideal times of one step; raises NotAnswerable where it has no such step or cell."""
    ops = prepared.ops
    _check(prepared, step, cells)
    at = ops.step_S.tolist().index(step)
    scenarios = Scenarios(2, [(_REPLAYED,)] * len(ops.type_O))
    begin, end = op_times(
        prepared.graph, prepared.own_OSD[:, at : at + 1], prepared.ideal_O, scenarios
    )
    members = [np.flatnonzero(ops.stage_O == stage) for stage, _ in cells]
    op_N = np.concatenate(members)
    dp_N = np.repeat([dp for _, dp in cells], [len(member) for member in members])
    first = float(ops.start_OSD[:, at].min())
    columns = {
        "stage": ops.stage_O[op_N],
        "dp": dp_N,
        "rank": ops.rank_PD[ops.stage_O[op_N], dp_N],
        "optype": pa.array([ops.optypes[code] for code in ops.type_O[op_N].tolist()]),
        "seq": ops.seq_O[op_N],
        "chunk": ops.chunk_O[op_N],
        "start_s": ops.start_OSD[op_N, at, dp_N].astype(np.float64) - first,
        "end_s": ops.end_OSD[op_N, at, dp_N].astype(np.float64) - first,
        "replayed_start_s": begin[op_N, _REPLAYED, 0, dp_N],
        "replayed_end_s": end[op_N, _REPLAYED, 0, dp_N],
        "own_s": prepared.own_OSD[op_N, at, dp_N],
        "ideal_start_s": begin[op_N, _IDEAL, 0, dp_N],
        "ideal_end_s": end[op_N, _IDEAL, 0, dp_N],
        "ideal_own_s": prepared.ideal_O[op_N],
    }
    return Timeline(step, tuple(cells), pa.table(columns))


def _check(prepared: Prepared, step: int, cells: Sequence[Cell]) -> None:
    step_S, sizes = prepared.ops.step_S, prepared.ops.sizes
    inside = all(0 <= stage < sizes.pp and 0 <= dp < sizes.dp for stage, dp in cells)
    if step not in step_S.tolist() or not inside or not cells:
        named = ", ".join(f"stage {stage} of dp rank {dp}" for stage, dp in cells)
        raise NotAnswerable(
            f"there is no replay of step {step} on {named or 'no rank'}: the steps are "
            f"{step_S[0]} to {step_S[-1]}, the stages 0 to {sizes.pp - 1} and the dp ranks 0 to "
            f"{sizes.dp - 1}"
        )

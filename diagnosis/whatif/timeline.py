"""One step as it was, as it is replayed, and as it would be without stragglers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.replay import Scenarios, op_times

_IDEAL, _REPLAYED = 0, 1


@dataclass(frozen=True)
class Timeline:
    """Ops of one step on one dp rank.

    `rows`: stage, rank, optype, seq, chunk (inside the stage, -1 none), then begin and end in s
    since the step's begin: start_s, end_s as measured, replayed_start_s, replayed_end_s by the
    replay of the real times, ideal_start_s, ideal_end_s by that of the ideal ones.
    """

    step: int
    dp: int
    rows: pa.Table


def timeline(prepared: Prepared, step: int, dp: int = 0) -> Timeline:
    """Real and ideal times of one step; raises NotAnswerable where it has no such step or rank."""
    ops = prepared.ops
    if step not in ops.step_S.tolist() or not 0 <= dp < ops.sizes.dp:
        raise NotAnswerable(
            f"there is no replay of step {step} on dp rank {dp}: the steps are {ops.step_S[0]} to "
            f"{ops.step_S[-1]} and the dp ranks 0 to {ops.sizes.dp - 1}"
        )
    at = ops.step_S.tolist().index(step)
    scenarios = Scenarios(2, [(_REPLAYED,)] * len(ops.type_O))
    begin, end = op_times(
        prepared.graph, prepared.own_OSD[:, at : at + 1], prepared.ideal_O, scenarios
    )
    start_O = ops.start_OSD[:, at, dp].astype(np.float64)
    end_O = ops.end_OSD[:, at, dp].astype(np.float64)
    first = float(ops.start_OSD[:, at].min())
    columns = {
        "stage": ops.stage_O,
        "rank": ops.rank_PD[ops.stage_O, dp],
        "optype": pa.array([ops.optypes[code] for code in ops.type_O.tolist()]),
        "seq": ops.seq_O,
        "chunk": ops.chunk_O,
        "start_s": start_O - first,
        "end_s": end_O - first,
        "replayed_start_s": begin[:, _REPLAYED, 0, dp],
        "replayed_end_s": end[:, _REPLAYED, 0, dp],
        "ideal_start_s": begin[:, _IDEAL, 0, dp],
        "ideal_end_s": end[:, _IDEAL, 0, dp],
    }
    return Timeline(step, dp, pa.table(columns))

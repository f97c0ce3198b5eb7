"""What the ranks of whole pipeline stages do while they compute: stand still, or wait for others.

Shape suffixes: see diagnosis/statistics/peers.py; P stages, N rows of an answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.statistics.peers import Work
from diagnosis.statistics.phase_times import PhaseTimes, middles
from diagnosis.statistics.rank_tables import Floats, Ints


def standing_still_of(times: PhaseTimes, stage_P: Ints) -> Floats:
    """Wall time without CPU time in the compute of the median rank of each stage, ms, (P, S)."""
    still_RS, pp_R = times.phases["stretch"], times.ranks.coords_R["pp"]
    return np.array([middles(still_RS[pp_R == stage]) for stage in stage_P])


def typical_compute(work: Work, stage_P: Ints, op_times: pa.Table) -> Floats:
    """Compute of each stage if all its spans were as long as their median in the step, ms, (P, S).

    That leaves out what single spans wait for others. Of the ranks that the answer of `op_times`
    has, the least; NaN unknown.
    """
    least_PS = np.full((stage_P.size, work.step_S.size), np.inf)
    outermost = op_times.filter(pc.equal(op_times["depth"], 0))
    total = outermost.group_by(["rank", "step"]).aggregate([("typical_ms", "sum")])
    rank_N, step_N = (total[name].to_numpy() for name in ("rank", "step"))
    stages = work.ranks.coords_R["pp"].tolist()
    stage_of = dict(zip(work.ranks.rank_R.tolist(), stages, strict=True))
    stage_N = np.array([stage_of.get(rank, -1) for rank in rank_N.tolist()], np.int64)
    known_N = np.isin(stage_N, stage_P) & np.isin(step_N, work.step_S)
    rows_N = np.searchsorted(stage_P, stage_N[known_N])
    columns_N = np.searchsorted(work.step_S, step_N[known_N])
    np.minimum.at(least_PS, (rows_N, columns_N), total["typical_ms_sum"].to_numpy()[known_N])
    return np.where(np.isfinite(least_PS), least_PS, np.nan)

"""The published what-if rules (2505.05713), with the numbers of its replay.

A job straggles from S = 1.1 on. Its cause: slow workers where making the worst 3 % ideal regains
half of the loss (M_W), the last stage where making it ideal does (M_S), sequence lengths where
forward and backward of micro-batches correlate by 0.9, else the type of operation that costs most.
The numbers are those of `rankscope whatif`, which equal the artifact's to 1e-6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

STRAGGLES, MOST_OF_IT, CORRELATED = 1.1, 0.5, 0.9


def findings_of(answer: dict[str, Any], trace: Path) -> list[dict[str, Any]]:
    """Findings of the rules in the shape of ours: kind, ranks, stages, steps."""
    if answer.get("S") is None or answer["S"] < STRAGGLES:
        return []
    if (answer["M_W"] or 0) >= MOST_OF_IT:
        return [_finding("slow_worker", ranks=answer["M_W_ranks"])]
    if (answer["M_S"] or 0) >= MOST_OF_IT:
        return [_finding("slow_stage", stages=[max(map(int, answer["S_stage"]))])]
    if _correlation(trace) >= CORRELATED:
        return [_finding("sequence_imbalance")]
    worst = max(answer["S_t"], key=lambda name: answer["S_t"][name])
    kind = _KIND_OF_TYPE.get(worst)
    return [_finding(kind)] if kind else []


_KIND_OF_TYPE = {
    "forward-pp-comm": "slow_link",
    "backward-pp-comm": "slow_link",
    "params-all-gather": "slow_dp_network",
    "grads-reduce-scatter": "slow_dp_network",
}


def _finding(kind: str, **places: list[int]) -> dict[str, Any]:
    return {"kind": kind, "ranks": [], "stages": [], "steps": [0, 1 << 31]} | places


def _correlation(trace: Path) -> float:
    """Median over the cells of the correlation of forward and backward of a micro-batch."""
    rows = pq.read_table(trace)
    optype = rows["optype"].cast("string")
    keys = ["stage", "dp_rank", "step", "mc", "mb_id"]
    both = []
    for name in ("forward-compute", "backward-compute"):
        chosen = rows.filter(pc.equal(optype, name)).sort_by([(key, "ascending") for key in keys])
        both.append(chosen)
    cell = both[0]["stage"].to_numpy().astype(np.int64) * 1000 + both[0]["dp_rank"].to_numpy()
    forward, backward = (one["duration"].to_numpy() for one in both)
    found = [np.corrcoef(forward[cell == c], backward[cell == c])[0, 1] for c in np.unique(cell)]
    return float(np.median(found))

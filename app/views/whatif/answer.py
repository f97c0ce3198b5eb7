"""Data of the what-if page, as JSON and arrays: the numbers, the causes, a replayed step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.views.whatif.analysis import MOST_INFIDELITY, Answer
from diagnosis.whatif.analysis import STRAGGLING, Prepared, WhatIf
from diagnosis.whatif.causes import NOT_IDENTIFIABLE, Cause
from diagnosis.whatif.optypes import COMPUTE
from diagnosis.whatif.timeline import Cell, Timeline, replica, timeline
from ingest.run import Run

MOST_LANES = 32
"""Lanes of a job without pipeline stages: this many dp ranks, the busiest ones."""

MOST_WORKERS = 20
"""The worst workers, listed next to the map."""

_TIMES = (
    "replayed_start_s",
    "replayed_end_s",
    "own_s",
    "ideal_start_s",
    "ideal_end_s",
    "ideal_own_s",
    "start_s",
    "end_s",
)


def numbers(answer: Answer) -> dict[str, Any]:
    """The metrics (names as in `rankscope whatif --json`) and their context.

    `S_w` and `rank` by stage and dp rank: of the worst member of each cell; `worst`: the worst of
    all workers. `M_W_ranks` begins with the worst.
    """
    metrics = answer.metrics
    return {
        "attempt": answer.attempt,
        "S": metrics.S,
        "T_base_s": metrics.T_base_s,
        "T_s": metrics.T_s,
        "T_ideal_s": metrics.T_ideal_s,
        "fidelity": metrics.fidelity,
        "S_t": metrics.S_t,
        "S_stage": metrics.S_stage,
        "S_dp": metrics.S_dp,
        "S_w": metrics.S_w_PD.tolist(),
        "rank": metrics.rank_PD.tolist(),
        "members": metrics.rank_PDT.shape[2],
        "workers": int((metrics.rank_PDT >= 0).sum()),
        "worst": _worst(metrics),
        "M_W": metrics.M_W,
        "M_W_ranks": worst_first(metrics.M_W_ranks, metrics),
        "M_S": metrics.M_S,
        "steps": metrics.step_S.tolist(),
        "straggling": STRAGGLING,
        "most_infidelity": MOST_INFIDELITY,
        "notes": answer.notes,
    }


def worst_first(ranks: Sequence[int], metrics: WhatIf) -> list[int]:
    """Ranks by S_w, greatest first; equal ones by rank."""
    S_w = metrics.S_w
    return sorted(ranks, key=lambda rank: (-S_w[rank], rank))


def _worst(metrics: WhatIf) -> list[dict[str, Any]]:
    workers = np.argwhere(metrics.rank_PDT >= 0)
    order = np.argsort(-metrics.S_w_PDT[tuple(workers.T)], kind="stable")[:MOST_WORKERS]
    return [
        {
            "rank": int(metrics.rank_PDT[worker]),
            "stage": worker[0],
            "dp": worker[1],
            "value": float(metrics.S_w_PDT[worker]),
        }
        for worker in map(tuple, workers[order].tolist())
    ]


def causes_json(causes: Sequence[Cause]) -> dict[str, Any]:
    """Causes, by how many seconds a replayed step is longer with each alone, and what is not
    identifiable.
    """
    costs = [
        {
            "kind": cause.kind,
            "stages": cause.stages,
            "ranks": cause.ranks,
            "text": cause.text,
            "cost_s": cause.cost_s,
        }
        for cause in causes
    ]
    return {"causes": costs, "not_identifiable": NOT_IDENTIFIABLE}


@dataclass(frozen=True)
class Replay:
    """One step on some lanes: arrays of the operations (times in s, float32) and their context."""

    arrays: dict[str, npt.NDArray[Any]]
    meta: dict[str, Any]


def replayed(answer: Answer, step: int | None, cell: Cell | None) -> Replay:
    """The nearest step (None: a typical one) around a cell (None: the busiest)."""
    metrics = answer.metrics
    index = _typical(metrics.T_s_S) if step is None else _nearest(metrics.step_S, step)
    cells = _lanes(answer.prepared, index, cell)
    lanes = timeline(answer.prepared, int(metrics.step_S[index]), cells)
    rank_PD = metrics.rank_PD
    meta = {
        "step": lanes.step,
        "dp": cells[0][1] if answer.prepared.ops.sizes.pp > 1 else None,
        "lanes": [
            {
                "stage": stage,
                "dp": dp,
                "rank": int(rank_PD[stage, dp]),
                "ranks": [rank for rank in metrics.rank_PDT[stage, dp].tolist() if rank >= 0],
            }
            for stage, dp in cells
        ],
        "optypes": list(answer.prepared.ops.optypes),
        "T_base_s": float(metrics.T_base_s_S[index]),
        "T_s": float(metrics.T_s_S[index]),
        "T_ideal_s": float(metrics.T_ideal_s_S[index]),
    }
    return Replay(_arrays(lanes, meta["optypes"]), meta)


def _typical(time_S: npt.NDArray[np.float64]) -> int:
    """Index of the step with the median duration."""
    return int(np.argsort(time_S, kind="stable")[(len(time_S) - 1) // 2])


def _nearest(step_S: npt.NDArray[np.int64], step: int) -> int:
    return int(np.argmin(np.abs(step_S - step)))


def _lanes(prepared: Prepared, step_index: int, cell: Cell | None) -> list[Cell]:
    """All stages of a replica; without stages the busiest replicas, and the requested one."""
    busy_D = _busy(prepared, step_index)
    if prepared.ops.sizes.pp > 1:
        return replica(prepared, int(np.argmax(busy_D)) if cell is None else cell[1])
    busiest = np.argsort(-busy_D, kind="stable")[:MOST_LANES].tolist()
    if cell is not None and cell[1] not in busiest:
        busiest[-1] = cell[1]
    return [(0, dp) for dp in sorted(busiest)]


def _busy(prepared: Prepared, step_index: int) -> npt.NDArray[np.float64]:
    """Compute of the busiest stage of each dp rank in one step, s: the others wait for the
    largest.
    """
    ops = prepared.ops
    members = [[op for t in COMPUTE for op in ops.of_type(t, p)] for p in range(ops.sizes.pp)]
    busy_D: npt.NDArray[np.float64] = np.max(
        [prepared.own_OSD[stage, step_index].sum(axis=0) for stage in members], axis=0
    )
    return busy_D


def _arrays(lanes: Timeline, optypes: list[str]) -> dict[str, npt.NDArray[Any]]:
    rows, pp_dp = lanes.rows, {cell: lane for lane, cell in enumerate(lanes.cells)}
    places = zip(rows["stage"].to_pylist(), rows["dp"].to_pylist(), strict=True)
    codes = [optypes.index(optype) for optype in rows["optype"].to_pylist()]
    return {
        "lane": np.array([pp_dp[place] for place in places], np.uint16),
        "type": np.array(codes, np.uint8),
        "seq": rows["seq"].to_numpy().astype(np.int32),
        "chunk": rows["chunk"].to_numpy().astype(np.int32),
    } | {name: rows[name].to_numpy().astype(np.float32) for name in _TIMES}


def cell_of(run: Run, answer: Answer, rank: int | None) -> Cell | None:
    """The cell of a rank, even if another rank represents it; None if there is none."""
    if rank is None:
        return None
    indices = np.argwhere(answer.metrics.rank_PDT == rank)
    if len(indices):
        stage, dp, _ = indices[0].tolist()
        return stage, dp
    rows = run.index_rows(
        "SELECT coalesce(pp, 0) AS stage, coalesce(dp, 0) AS dp FROM ranks"
        " WHERE attempt = $attempt AND rank = $rank",
        attempt=answer.attempt,
        rank=rank,
    )
    sizes = answer.prepared.ops.sizes
    if not rows or rows[0]["stage"] >= sizes.pp or rows[0]["dp"] >= sizes.dp:
        return None
    return int(rows[0]["stage"]), int(rows[0]["dp"])

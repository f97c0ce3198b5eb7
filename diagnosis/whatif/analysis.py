"""All scenarios and metrics of the what-if analysis of one job."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.graph import Graph, graph_of
from diagnosis.whatif.operations import Floats, Ints, NotAnswerable, Operations
from diagnosis.whatif.optypes import reported_as
from diagnosis.whatif.replay import Scenarios, step_times
from diagnosis.whatif.transfers import ideals, transfers

STRAGGLING = 1.03
"""Below this S the paper calls a job healthy, and attribution means nothing."""

WORST_SHARE = 0.03
"""Share of the workers made ideal for M_W."""

_IDEAL, _REAL = 0, 1


@dataclass(frozen=True)
class WhatIf:
    """Answers of the analysis; all times in seconds, means over the steps. Equations: 2505.05713.

    `S` (Eq. 1): how many times longer than without stragglers. `S_t` (Eq. 2) by op type, `S_stage`
    by stage, `S_dp` by dp rank: only these real, all else ideal. `S_w_PD` (Eq. 4): of each cell,
    `rank_PD` its global rank. `M_W` (Eq. 5): share of the loss gone when the worst workers
    `M_W_ranks` are made ideal; `M_S`: when the last stage is (None for one stage). The shares
    may lie outside 0..1, and are None where there is no loss to share out.
    """

    S: float
    T_base_s: float
    T_s: float
    T_ideal_s: float
    fidelity: float
    S_t: dict[str, float]
    S_stage: tuple[float, ...]
    S_dp: tuple[float, ...]
    S_w_PD: Floats
    rank_PD: Ints
    M_W: float | None
    M_W_ranks: tuple[int, ...]
    M_S: float | None
    step_S: Ints
    T_base_s_S: Floats
    T_s_S: Floats
    T_ideal_s_S: Floats
    notes: tuple[str, ...]

    @property
    def S_w(self) -> dict[int, float]:
        """S_w by global rank."""
        pairs = zip(self.rank_PD.ravel().tolist(), self.S_w_PD.ravel().tolist(), strict=True)
        return dict(sorted(pairs))


@dataclass(frozen=True)
class Prepared:
    """Ops with their graph, real own times (O, S, D) and ideal ones (O), s: all a replay needs."""

    ops: Operations
    graph: Graph
    own_OSD: Floats
    ideal_O: Floats


def prepare(ops: Operations) -> Prepared:
    """Build the graph and take the waiting out; raises NotAnswerable where the ops make none."""
    graph = graph_of(ops)
    own_OSD = transfers(ops, graph)
    return Prepared(ops, graph, own_OSD, ideals(ops, own_OSD)[ops.type_O])


def what_if(prepared: Prepared) -> WhatIf:
    """Replay all scenarios; raises NotAnswerable where operations take no time."""
    ops, graph = prepared.ops, prepared.graph
    own_OSD, ideal_O = prepared.own_OSD, prepared.ideal_O
    names = list(dict.fromkeys(map(reported_as, ops.optypes)))
    scenarios = _scenarios(ops, names)
    time_KS, lane_SD = step_times(graph, own_OSD, ideal_O, scenarios)
    mean_K = time_KS.mean(axis=1)
    T_ideal, T = float(mean_K[_IDEAL]), float(mean_K[_REAL])
    if min(T_ideal, T) <= 0:
        raise NotAnswerable(
            f"steps take {T:.3g} s as replayed and {T_ideal:.3g} s without stragglers; there is "
            "no time to compare"
        )
    slow_K = mean_K / T_ideal
    stage_P = slow_K[2 + len(names) :][: ops.sizes.pp]
    dp_D = lane_SD.mean(axis=0) / T_ideal
    S_w_PD = np.minimum(stage_P[:, None], dp_D[None, :])
    worst = _worst(S_w_PD, ops.rank_PD)
    without_worst = _without(prepared, worst)
    base_S = _measured(ops)
    has_stages = ops.sizes.pp > 1
    return WhatIf(
        S=T / T_ideal, T_base_s=float(base_S.mean()), T_s=T, T_ideal_s=T_ideal,
        fidelity=float(base_S.mean()) / T - 1,
        S_t=dict(zip(names, slow_K[2:].tolist(), strict=False)),
        S_stage=tuple(stage_P.tolist()), S_dp=tuple(dp_D.tolist()), S_w_PD=S_w_PD,
        rank_PD=ops.rank_PD, M_W=_share(T, without_worst, T_ideal),
        M_W_ranks=tuple(sorted(ops.rank_PD.ravel()[worst].tolist())),
        M_S=_share(T, float(mean_K[-1]), T_ideal) if has_stages else None,
        step_S=ops.step_S, T_base_s_S=base_S, T_s_S=time_KS[_REAL], T_ideal_s_S=time_KS[_IDEAL],
        notes=ops.notes,
    )  # fmt: skip


def _scenarios(ops: Operations, names: list[str]) -> Scenarios:
    """Ideal, real, one per name of a type, one per stage, all but the last stage; and the lanes."""
    pp = ops.sizes.pp
    num = 2 + len(names) + pp + 1
    row_of = [2 + names.index(reported_as(optype)) for optype in ops.optypes]
    real_O = []
    for code, stage in zip(ops.type_O.tolist(), ops.stage_O.tolist(), strict=True):
        rows = [_REAL, row_of[code], 2 + len(names) + stage]
        real_O.append(rows if stage == pp - 1 else [*rows, num - 1])
    return Scenarios(num, real_O, lanes=True)


def _measured(ops: Operations) -> Floats:
    """From the first start to the last end of each step, s."""
    last_S, first_S = ops.end_OSD.max(axis=(0, 2)), ops.start_OSD.min(axis=(0, 2))
    base_S: Floats = (last_S - first_S).astype(np.float64)
    return base_S


def _worst(S_w_PD: Floats, rank_PD: Ints) -> Ints:
    """Flat indices of the worst workers; equal ones by rank."""
    order = np.lexsort((rank_PD.ravel(), -S_w_PD.ravel()))
    return order[: math.ceil(WORST_SHARE * order.size)].astype(np.int64)


def _without(prepared: Prepared, worst: Ints) -> float:
    """Mean step time with these workers made ideal."""
    own_OSD, ideal_O = prepared.own_OSD.copy(), prepared.ideal_O
    for stage, dp in zip(*np.divmod(worst, prepared.ops.sizes.dp), strict=True):
        at_O = np.flatnonzero(prepared.ops.stage_O == stage)
        own_OSD[at_O, :, dp] = ideal_O[at_O, None]
    everywhere = Scenarios(1, [(0,)] * len(ideal_O))
    return float(step_times(prepared.graph, own_OSD, ideal_O, everywhere)[0].mean())


def _share(T: float, without: float, T_ideal: float) -> float | None:
    loss = T - T_ideal
    return (T - without) / loss if loss else None

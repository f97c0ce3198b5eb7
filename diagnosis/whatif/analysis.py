"""All scenarios and metrics of the what-if analysis of one job.

A worker of the paper is a cell. Where a cell has several ranks, its members, each of them is a
worker, and S_w of Eq. 4 is taken for each member number by itself: of the slowdowns of "only this
stage real" and "only this dp rank real" the lesser, in jobs where the real cells take as long as if
all their members were like that one. Waiting for other members is no time of a rank's own, so of a
cell the rank that the others wait for has its slowdown. All other numbers are of cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.graph import Graph, graph_of
from diagnosis.whatif.operations import Floats, Ints, NotAnswerable, Operations
from diagnosis.whatif.optypes import reported_as
from diagnosis.whatif.replay import Scenarios, step_times
from diagnosis.whatif.transfers import ideals, of_members, transfers

STRAGGLING = 1.03
"""Below this S the paper calls a job healthy, and attribution means nothing."""

WORST_SHARE = 0.03
"""Share of the workers made ideal for M_W."""

_IDEAL, _REAL = 0, 1


@dataclass(frozen=True)
class WhatIf:
    """Answers of the analysis; all times in seconds, means over the steps. Equations: 2505.05713.

    `S` (Eq. 1): how many times longer than without stragglers. `S_t` (Eq. 2) by op type, `S_stage`
    by stage, `S_dp` by dp rank: only these real, all else ideal. `S_w_PDT` (Eq. 4): of each worker,
    `rank_PDT` its global rank (-1: there is none). `M_W` (Eq. 5): share of the loss gone when the
    worst workers `M_W_ranks` are made ideal; `M_S`: when the last stage is (None for one stage).
    The shares may lie outside 0..1, and are None where there is no loss to share out.
    """

    S: float
    T_base_s: float
    T_s: float
    T_ideal_s: float
    fidelity: float
    S_t: dict[str, float]
    S_stage: tuple[float, ...]
    S_dp: tuple[float, ...]
    S_w_PDT: Floats
    rank_PDT: Ints
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
        there_PDT = self.rank_PDT >= 0
        pairs = zip(
            self.rank_PDT[there_PDT].tolist(), self.S_w_PDT[there_PDT].tolist(), strict=True
        )
        return dict(sorted(pairs))

    @property
    def S_w_PD(self) -> Floats:
        """S_w of the worst member of each cell."""
        S_w_PD: Floats = np.take_along_axis(self.S_w_PDT, self._worst_PD1, axis=2)[..., 0]
        return S_w_PD

    @property
    def rank_PD(self) -> Ints:
        """Global rank of the worst member of each cell; the first of equal ones."""
        rank_PD: Ints = np.take_along_axis(self.rank_PDT, self._worst_PD1, axis=2)[..., 0]
        return rank_PD

    @property
    def _worst_PD1(self) -> Ints:
        S_w_PDT = np.where(self.rank_PDT >= 0, self.S_w_PDT, -np.inf)
        worst_PD1: Ints = np.argmax(S_w_PDT, axis=2)[..., None].astype(np.int64)
        return worst_PD1


@dataclass(frozen=True)
class Prepared:
    """Ops with their graph, real own times of cells (O, S, D) and of their members (O, S, D, T;
    NaN: no such op), and ideal ones (O), s: all a replay needs.
    """

    ops: Operations
    graph: Graph
    own_OSD: Floats
    own_OSDT: Floats
    ideal_O: Floats


def prepare(ops: Operations) -> Prepared:
    """Build the graph and take the waiting out; raises NotAnswerable where the ops make none."""
    graph = graph_of(ops)
    own_OSD = transfers(ops, graph)
    own_OSDT = of_members(ops, own_OSD)
    return Prepared(ops, graph, own_OSD, own_OSDT, ideals(ops, own_OSD, own_OSDT)[ops.type_O])


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
    S_w_PDT = np.minimum(stage_P[:, None], dp_D[None, :])[..., None]
    if ops.members is not None:
        S_w_PDT = _of_members(prepared, T_ideal)
    worst = _worst(S_w_PDT, ops.rank_PDT)
    without_worst = without(prepared, worst)
    base_S = _measured(ops)
    has_stages = ops.sizes.pp > 1
    return WhatIf(
        S=T / T_ideal,
        T_base_s=float(base_S.mean()),
        T_s=T,
        T_ideal_s=T_ideal,
        fidelity=float(base_S.mean()) / T - 1,
        S_t=dict(zip(names, slow_K[2:].tolist(), strict=False)),
        S_stage=tuple(stage_P.tolist()),
        S_dp=tuple(dp_D.tolist()),
        S_w_PDT=S_w_PDT,
        rank_PDT=ops.rank_PDT,
        M_W=_share(T, without_worst, T_ideal),
        M_W_ranks=tuple(sorted(ops.rank_PDT.ravel()[worst].tolist())),
        M_S=_share(T, float(mean_K[-1]), T_ideal) if has_stages else None,
        step_S=ops.step_S,
        T_base_s_S=base_S,
        T_s_S=time_KS[_REAL],
        T_ideal_s_S=time_KS[_IDEAL],
        notes=ops.notes,
    )


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


def _of_members(prepared: Prepared, T_ideal: float) -> Floats:
    """S_w of every rank (P, D, T): Eq. 4 of each member number by itself, all in one replay, in
    which the steps of every member number follow those of the one before.
    """
    ops, ideal_O = prepared.ops, prepared.ideal_O
    scenarios = Scenarios(ops.sizes.pp, [(stage,) for stage in ops.stage_O.tolist()], lanes=True)
    own_OTSD = np.moveaxis(prepared.own_OSDT, 3, 1)
    own_OTSD = np.where(np.isnan(own_OTSD), ideal_O[:, None, None, None], own_OTSD)
    num_ops, num_members, num_steps, num_dp = own_OTSD.shape
    own_OSD = own_OTSD.reshape(num_ops, num_members * num_steps, num_dp)
    time_PS, lane_SD = step_times(prepared.graph, own_OSD, ideal_O, scenarios)
    by_member = []
    for first in range(0, num_members * num_steps, num_steps):
        steps = slice(first, first + num_steps)
        stage_P, dp_D = time_PS[:, steps].mean(axis=1), lane_SD[steps].mean(axis=0)
        by_member.append(np.minimum(stage_P[:, None], dp_D[None, :]) / T_ideal)
    return np.stack(by_member, axis=-1)


def _worst(S_w_PDT: Floats, rank_PDT: Ints) -> Ints:
    """Flat indices of the worst workers; equal ones by rank."""
    there = np.flatnonzero(rank_PDT.ravel() >= 0)
    order = np.lexsort((rank_PDT.ravel()[there], -S_w_PDT.ravel()[there]))
    return there[order[: math.ceil(WORST_SHARE * order.size)]].astype(np.int64)


def without(prepared: Prepared, worst: Ints) -> float:
    """Mean step time with these workers made ideal: their cells take as long as the slowest of
    the other members, at least what is ideal.
    """
    ops, ideal_O = prepared.ops, prepared.ideal_O
    is_worst_PDT = np.zeros(ops.rank_PDT.shape, np.bool_)
    is_worst_PDT.reshape(-1)[worst] = True
    own_OSD = prepared.own_OSD.copy()
    for stage, dp in np.argwhere(is_worst_PDT.any(axis=2)).tolist():
        at_O = np.flatnonzero(ops.stage_O == stage)
        others_NST = prepared.own_OSDT[at_O, :, dp][..., ~is_worst_PDT[stage, dp]]
        made_NS = np.broadcast_to(ideal_O[at_O, None], others_NST.shape[:2])
        for member in range(others_NST.shape[2]):
            made_NS = np.fmax(made_NS, others_NST[..., member])
        own_OSD[at_O, :, dp] = made_NS
    everywhere = Scenarios(1, [(0,)] * len(ideal_O))
    return float(step_times(prepared.graph, own_OSD, ideal_O, everywhere)[0].mean())


def _share(T: float, without: float, T_ideal: float) -> float | None:
    loss = T - T_ideal
    return (T - without) / loss if loss else None

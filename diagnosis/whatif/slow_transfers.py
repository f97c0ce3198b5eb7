"""Links between stages, and networks of replicas, whose transfers take longer than all others.

Shape suffixes: see the package. Each member of a cell has links and replicas of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import Floats
from diagnosis.whatif.optypes import (
    ALL_GATHER,
    BACKWARD_SEND,
    FORWARD_SEND,
    REDUCE_SCATTER,
    SEPARATE_ALL_REDUCE,
)
from diagnosis.whatif.suspects import Suspect, beyond, medians, named, scaled, shrunk

MIN_LINK_RATIO, MIN_NETWORK_RATIO = 2.0, 1.5

Edge = tuple[int, int]


def links(prepared: Prepared) -> Iterator[Suspect]:
    """Links between two stages of one replica whose transfers take longer than all others."""
    over = _pairs(prepared)
    edges = sorted(over)
    if not edges:
        return
    level_EDT = np.array([_transfer_DT(prepared.own_OSDT, over[edge]) for edge in edges])
    there = np.flatnonzero(np.isfinite(level_EDT.ravel()))
    flat = level_EDT.ravel()[there]
    if flat.size < 3 or (flat <= 0).any():
        return
    ratios, slow = beyond(flat, MIN_LINK_RATIO - 1)
    ratio_EDT = np.ones(level_EDT.shape)
    ratio_EDT.reshape(-1)[there[slow]] = ratios[slow]
    for at, dp in np.argwhere((ratio_EDT > 1).any(axis=2)).tolist():
        members = [op for pair in over[edges[at]] for op in pair]
        yield _link(prepared, edges[at], members, dp, ratio_EDT[at, dp])


def _pairs(prepared: Prepared) -> dict[Edge, list[tuple[int, ...]]]:
    """Sends with their receives by the two stages."""
    ops = prepared.ops
    over: dict[Edge, list[tuple[int, ...]]] = {}
    for node in prepared.graph.nodes:
        if len(node.ops) == 2 and ops.optypes[ops.type_O[node.ops[0]]] in (
            FORWARD_SEND,
            BACKWARD_SEND,
        ):
            stages = sorted(int(ops.stage_O[op]) for op in node.ops)
            over.setdefault((stages[0], stages[1]), []).append(node.ops)
    return over


def _transfer_DT(own_OSDT: Floats, pairs: list[tuple[int, ...]]) -> Floats:
    """Median transfer between two stages, s: the longer of its two sides counts."""
    sent, received = own_OSDT[[a for a, _ in pairs]], own_OSDT[[b for _, b in pairs]]
    return medians(np.maximum(sent, received))


def _link(prepared: Prepared, edge: Edge, members: list[int], dp: int, ratio_T: Floats) -> Suspect:
    slow, ratio = np.flatnonzero(ratio_T > 1), float(ratio_T.max())
    sides = [prepared.ops.rank_PDT[stage, dp, slow].tolist() for stage in edge]
    text = (
        f"transfers between {named(sides[0])} and {named(sides[1])} take {ratio:.1f}x those of the "
        "other links"
    )
    factor_NS = shrunk(prepared.own_OSDT[members, :, dp], ratio_T)
    fix = scaled(members, dp, factor_NS)
    return Suspect("slow_link", edge, (*sides[0], *sides[1]), ratio, text, fix)


def networks(prepared: Prepared) -> Iterator[Suspect]:
    """Stages whose collectives over replicas take longer than those of the quicker stages; of
    members with replicas of their own, only those that do.
    """
    ops = prepared.ops
    types = (ALL_GATHER, REDUCE_SCATTER, SEPARATE_ALL_REDUCE)
    members = [[op for t in types for op in ops.of_type(t, p)] for p in range(ops.sizes.pp)]
    if not all(members) or len({len(m) for m in members}) > 1:
        return
    level_PT = np.array([_network_T(prepared.own_OSDT[m]) for m in members])
    there_PT = np.isfinite(level_PT)
    quick = float(np.quantile(level_PT[there_PT], 0.25, method="lower"))
    if there_PT.sum() < 2 or quick <= 0:
        return
    ratio_PT = np.where(there_PT, level_PT / quick, 1.0)
    ratio_PT[ratio_PT <= MIN_NETWORK_RATIO] = 1.0
    for stage in np.flatnonzero((ratio_PT > 1).any(axis=1)).tolist():
        yield _network(prepared, stage, members[stage], ratio_PT[stage])


def _network_T(own_NSDT: Floats) -> Floats:
    """Sum of the medians of all collectives, s, of each member number."""
    sum_T = np.full(own_NSDT.shape[3], np.nan)
    there_T = np.isfinite(own_NSDT).any(axis=(1, 2)).all(axis=0)
    sum_T[there_T] = np.nanmedian(own_NSDT[..., there_T], axis=(1, 2)).sum(axis=0)
    return sum_T


def _network(prepared: Prepared, stage: int, members: list[int], ratio_T: Floats) -> Suspect:
    slow, ratio = np.flatnonzero(ratio_T > 1), float(ratio_T.max())
    ranks_DT = prepared.ops.rank_PDT[stage][:, slow]
    ranks = tuple(sorted(ranks_DT[ranks_DT >= 0].tolist()))
    if len(slow) == len(ratio_T):
        text = (
            f"collectives over the replicas of stage {stage} take {ratio:.1f}x as long as those "
            "of the quicker stages"
        )
    else:
        whose = named(ranks_DT[0].tolist())
        text = (
            f"collectives over the replicas of {whose} take {ratio:.1f}x as long as "
            "the quicker ones"
        )
    factor_NSD = shrunk(prepared.own_OSDT[members], ratio_T)
    fix = scaled(members, slice(None), factor_NSD)
    return Suspect("slow_dp_network", (stage,), ranks, ratio, text, fix)

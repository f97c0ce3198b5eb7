"""Ranks with fewer than three peers, compared with these, as the other stages of the replicas are.

A micro-batch visits every stage of its replica, so a replica with more work computes longer in all
of its stages, and a longer stage does so in all replicas. A rank that computes longer than the same
stage of the other replicas, and by more than the other stages of its replica do, has neither
reason: its device is slow. Both are asked for, as a slow peer makes a rank look quick in its stage
and the rest of its replica look slow against that.

Source: the rule is ours; it is a two-way median polish (Tukey 1977) of which only one cell at a
time is asked for. Assumes: fewer than half of the stages of a replica have a slow rank. Shape
suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from diagnosis.statistics.peers import Work, medians_of_others
from diagnosis.statistics.rank_tables import Bools, Floats, Ints, Ranks

FEWEST_STAGES = 3
"""With two stages it is unknown in which of them the replicas differ."""


def beyond_replicas(work: Work, alone_R: Bools) -> Floats:
    """By what share each of these ranks computes longer in each step than the same stage of the
    other replicas, and beyond what the other stages of its replica do: the lesser of both. NaN
    unknown and of other ranks.
    """
    excess_RS = np.full(work.work_RS.shape, np.nan)
    role_R, replica_R = _numbered(work.ranks, ("pp", "cp", "tp")), _replicas(work.ranks)
    if role_R is None or replica_R is None:
        return excess_RS
    longer_RS = np.full(work.work_RS.shape, np.nan)
    for role in np.unique(role_R[alone_R]):
        rows = np.flatnonzero(role_R == role)
        others_NS = medians_of_others(work.work_RS[rows], np.ones(rows.size, np.bool_))
        longer_RS[rows] = np.log(work.work_RS[rows] / others_NS)
    for replica in np.unique(replica_R[alone_R]):
        rows = np.flatnonzero((replica_R == replica) & alone_R)
        if rows.size >= FEWEST_STAGES:
            usual_NS = medians_of_others(longer_RS[rows], np.ones(rows.size, np.bool_))
            excess_RS[rows] = np.expm1(longer_RS[rows] - np.maximum(usual_NS, 0.0))
    return excess_RS


def without_halves(ranks: Ranks, rows: Iterable[int]) -> set[int]:
    """Of these rows those whose replica has most of its stages among the others: where it has not,
    the other replicas may be the quicker ones for a reason of their own.
    """
    replica_R, accused = _replicas(ranks), set(rows)
    if replica_R is None:
        return set()
    size_R = np.bincount(replica_R)[replica_R]
    num_R = np.bincount(replica_R[sorted(accused)], minlength=replica_R.max() + 1)[replica_R]
    return {row for row in accused if 2 * num_R[row] < size_R[row]}


def _replicas(ranks: Ranks) -> Ints | None:
    return _numbered(ranks, ("dp", "cp", "tp"))


def _numbered(ranks: Ranks, axes: tuple[str, ...]) -> Ints | None:
    """The same number for ranks with the same index on these axes; None where the stage or replica
    of any is unknown. An axis that nobody knows has one index.
    """
    if any((ranks.coords_R[axis] < 0).any() for axis in ("pp", "dp")):
        return None
    index = np.stack([ranks.coords_R[axis] for axis in axes])
    return np.unique(index, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)

"""Rare long steps of one rank among those of others: a rank that stops for a while, before or after
another one did.

A busy host stops another process each time, by another length. What one rank does again and again
comes several times in a row, each time about as long.

Shape suffixes: R ranks, N long steps, K of them.
"""

from __future__ import annotations

import numpy as np

from diagnosis.statistics.episodes import greatest_sum
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.rank_tables import Bools, Floats, Ints

FEWEST_IN_A_ROW = 4
"""On one of four ranks by chance: in one of 64 rows, of which few are of similar steps."""

SIMILAR = 1.25
"""A step is at most so many times as long as another one of the same cause."""


def spikes_in_a_row(
    columns: Ints, excess_RN: Floats, is_long_RN: Bools
) -> list[tuple[tuple[int, ...], Ints]]:
    """Rows of ranks, and which of the N long steps are theirs: four or more of similar length, with
    few of others in between. In order of time.

    `columns`: of the long steps; side by side they count once. `excess_RN`: ms of each rank.
    `is_long_RN`: who makes a step long; what most ranks do at once is left out.
    """
    rows_of: dict[tuple[int, ...], list[int]] = {}
    is_long_RN = is_long_RN & (is_long_RN.mean(axis=0) <= 1 / 2)
    for row in np.flatnonzero(is_long_RN.sum(axis=1) >= FEWEST_IN_A_ROW).tolist():
        hits_N = is_long_RN[row]
        first, last, _ = greatest_sum(np.where(hits_N, 1.0, -STEADY_SHARE / (1 - STEADY_SHARE)))
        at = first + np.flatnonzero(hits_N[first : last + 1])
        occasions = 1 + int((np.diff(columns[at]) > 1).sum())
        if occasions >= FEWEST_IN_A_ROW and _are_similar(excess_RN[row, at]):
            rows_of.setdefault(tuple(at.tolist()), []).append(row)
    return [(tuple(rows), np.array(at)) for at, rows in sorted(rows_of.items())]


def _are_similar(excess_K: Floats) -> bool:
    usual = float(np.median(excess_K))
    is_similar_K = (excess_K <= SIMILAR * usual) & (excess_K >= usual / SIMILAR)
    return bool(is_similar_K.mean() >= STEADY_SHARE)

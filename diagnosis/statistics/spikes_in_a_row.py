"""Rare long steps of one rank among those of others: a rank that stops for a while, before or after
another one did.

A busy host stops another process each time, by another length. What one rank does again and again
comes several times in a row, each time about as long.

Shape suffixes: R ranks, N long steps, K of them.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    few of others in between; no rows where most ranks make them. In order of time.

    `columns`: of the long steps; side by side they count once. `excess_RN`: ms of each rank.
    `is_long_RN`: who makes a step long.
    """
    of_most_N, most_N = of_most(excess_RN), excess_RN.max(axis=0)
    parts: list[tuple[tuple[int, ...], Ints]] = [
        ((), part) for part in _in_a_row(columns, of_most_N, most_N, most_N)
    ]
    rows_of: dict[tuple[int, ...], list[int]] = {}
    for row in np.flatnonzero((is_long_RN & ~of_most_N).sum(axis=1) >= FEWEST_IN_A_ROW).tolist():
        for part in _in_a_row(columns, is_long_RN[row] & ~of_most_N, excess_RN[row], most_N):
            rows_of.setdefault(tuple(part.tolist()), []).append(row)
    parts += [(tuple(rows), np.array(part)) for part, rows in rows_of.items()]
    return sorted(parts, key=lambda part: int(part[1][0]))


def _in_a_row(columns: Ints, hits_N: Bools, excess_N: Floats, most_N: Floats) -> Iterator[Ints]:
    """Which of these hits follow each other."""
    if hits_N.sum() < FEWEST_IN_A_ROW:
        return
    usual = float(np.median(excess_N[hits_N]))
    counts = np.flatnonzero(hits_N | (most_N >= _TAKES_PART * usual))  # less is no interruption
    votes = np.where(hits_N[counts], 1.0, -STEADY_SHARE / (1 - STEADY_SHARE))
    first, last, _ = greatest_sum(votes)
    between = counts[first : last + 1]
    for part in _without_pauses(columns, between[hits_N[between]]):
        occasions = 1 + int((np.diff(columns[part]) > 1).sum())
        if occasions >= FEWEST_IN_A_ROW and _are_similar(excess_N[part]):
            yield part


def of_most(excess_RN: Floats) -> Bools:
    """Which steps more than half of the ranks make long, or take part in: (N,)."""
    of_most_N: Bools = (excess_RN >= _TAKES_PART * excess_RN.max(axis=0)).mean(axis=0) > 1 / 2
    return of_most_N


def _without_pauses(columns: Ints, at: Ints) -> list[Ints]:
    """Parts without a distance of far more steps than the usual one."""
    if at.size < 2:
        return [at]
    gap = np.diff(columns[at])
    parts: list[Ints] = np.split(at, 1 + np.flatnonzero(gap > _PAUSE * np.median(gap)))
    return parts


def _are_similar(excess_K: Floats) -> bool:
    usual = float(np.median(excess_K))
    is_similar_K = (excess_K <= SIMILAR * usual) & (excess_K >= usual / SIMILAR)
    return bool(is_similar_K.mean() >= STEADY_SHARE)


_TAKES_PART = 0.25
"""Of the excess of the rank with most: the noise of a busy host covers half of what all do."""

_PAUSE = 5
"""Usual distances: a longer one lies between two episodes."""

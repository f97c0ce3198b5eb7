"""Peers of ranks in whole matrices: their medians and their spread.

The rule is that of `slowdowns` in ingest/sql/index/views.sql (a test compares them): the other
ranks with the same pp and tp; if there are fewer than 3, the other ranks of the stage; if there are
still fewer, the rank's own last 20 steps.

Shape suffixes: R rank, S step, G member of a group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.views.ranks.scales import Floats, Ints

FEWEST_PEERS = 3
PAST_STEPS = 20
"""Steps of a rank's own past, and of the window in which noise is measured."""
_FEWEST_PAST = 3


def group_ids(*coordinates_R: Ints) -> Ints:
    """Number of the group of each rank: ranks with equal coordinates share one."""
    stacked = np.stack(coordinates_R, axis=1)
    return np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def members(group_R: Ints) -> Iterator[Ints]:
    """Row numbers of each group."""
    order = np.argsort(group_R, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_R[order])) + 1)


def median_of_others(value_GS: Floats) -> tuple[Floats, Ints]:
    """Median of a group without the member itself, and the number of members with a value (S)."""
    sorted_SG = np.sort(value_GS.T, axis=1)  # NaN last
    count_S = value_GS.shape[0] - np.isnan(sorted_SG).sum(axis=1)
    low, middle, high = (
        np.take_along_axis(
            sorted_SG, np.clip(count_S // 2 + shift, 0, len(value_GS) - 1)[:, None], 1
        )[:, 0]
        for shift in (-1, 0, 1)
    )
    first_GS = np.where(value_GS > low, low, middle)
    second_GS = np.where(value_GS > middle, middle, high)
    median_GS = np.where(count_S % 2 == 0, first_GS, (first_GS + second_GS) / 2)
    median_GS[np.isnan(value_GS) | (count_S < 2)] = np.nan
    return median_GS.astype(np.float32), count_S


def own_past(value_S: Floats) -> Floats:
    """Median of up to 20 values before each one; NaN if there are fewer than 3."""
    known = np.flatnonzero(~np.isnan(value_S))
    median_S = np.full_like(value_S, np.nan)
    for number, step in enumerate(known):
        before = known[max(0, number - PAST_STEPS) : number]
        if len(before) >= _FEWEST_PAST:
            median_S[step] = np.median(value_S[before])
    return median_S


def peers_median(value_RS: Floats, stage_R: Ints, replica_R: Ints) -> tuple[Floats, Ints]:
    """Median of the peers of each rank and step, and the group (R) whose spread is its noise.

    `stage_R`: number of the stage; `replica_R`: number of (stage, tensor index).
    """
    median_RS = np.full_like(value_RS, np.nan)
    is_alone_R = np.zeros(len(value_RS), dtype=bool)
    by_stage_R = np.zeros(len(value_RS), dtype=bool)
    for rows in members(replica_R):
        median_RS[rows], count_S = median_of_others(value_RS[rows])
        few_S = count_S <= FEWEST_PEERS
        if few_S.any():
            median_RS[np.ix_(rows, few_S)] = np.nan
            by_stage_R[rows] = bool(few_S[count_S > 0].any())
    for rows in members(stage_R):
        needing = rows[by_stage_R[rows]]
        if not needing.size:
            continue
        stage_GS, count_S = median_of_others(value_RS[rows])
        stage_GS[:, count_S <= FEWEST_PEERS] = np.nan
        is_alone_R[needing] = bool((count_S[count_S > 0] <= FEWEST_PEERS).any())
        mine = stage_GS[by_stage_R[rows]]
        median_RS[needing] = np.where(np.isnan(median_RS[needing]), mine, median_RS[needing])
    for row in np.flatnonzero(is_alone_R):
        past_S = own_past(value_RS[row])
        median_RS[row] = np.where(np.isnan(median_RS[row]), past_S, median_RS[row])
    offset = len(value_RS)
    group_R = np.where(by_stage_R, offset + stage_R, replica_R)
    return median_RS, np.where(is_alone_R, 2 * offset + np.arange(offset), group_R)


def _mad(values: Floats) -> float:
    known = values[~np.isnan(values)]
    if not known.size:
        return float("nan")
    return float(np.median(np.abs(known - np.median(known))))


def spread(deviation_RS: Floats, group_R: Ints) -> Floats:
    """MAD of the deviations of each rank's group over the window of 20 steps that contains a step.

    Windows end with the last step, so that the newest values are judged by the last 20 steps.
    """
    num_steps = deviation_RS.shape[1]
    spread_RS = np.full_like(deviation_RS, np.nan)
    ends = np.arange(num_steps, 0, -PAST_STEPS)
    for rows in members(group_R):
        block_GS = deviation_RS[rows]
        for end in ends:
            begin = max(0, end - PAST_STEPS)
            spread_RS[rows, begin:end] = _mad(block_GS[:, begin : begin + PAST_STEPS])
    return spread_RS


def spread_within_step(deviation_RS: Floats, group_R: Ints) -> Floats:
    """MAD of the deviations of each rank's group in each step; 0 if the group is one rank."""
    spread_RS = np.zeros_like(deviation_RS)
    for rows in members(group_R):
        if rows.size > 1:
            block_SG = deviation_RS[rows].T
            middle_S = _nanmedian(block_SG)
            spread_RS[rows] = _nanmedian(np.abs(block_SG - middle_S[:, None]))
    return spread_RS


def _nanmedian(value_SG: Floats) -> Floats:
    """Median along the last axis without NaN; NaN (without a warning) if nothing is known."""
    sorted_SG = np.sort(value_SG, axis=1)
    count_S = value_SG.shape[1] - np.isnan(sorted_SG).sum(axis=1)
    low, high = (
        np.take_along_axis(sorted_SG, np.maximum(index, 0)[:, None], 1)[:, 0]
        for index in ((count_S - 1) // 2, count_S // 2 - (count_S == 0))
    )
    return np.where(count_S > 0, (low + high) / 2, np.nan).astype(np.float32)

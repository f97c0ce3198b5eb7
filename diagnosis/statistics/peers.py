"""Ranks against their peers: slowdown and its noise, as the metrics define them.

Slowdown = a rank's compute (CPU time where the job ran on CPU and recorded it) / the median of its
peers. Peers: same pp and tp over dp; fewer than 3 of those: the other ranks of the stage; still
fewer: the rank's own past, relative to what the other such ranks did meanwhile. Where the layout is
not known at all, all other ranks, whatever their roles.
Where nobody is accused that is `slowdowns` of ingest/sql/index/views.sql (a test holds them equal),
but for the own past: there SQL takes the 20 steps before each one, which a lasting change moves.
Noise = 3 MAD of slowdown over the peers and the last 20 steps.

Shape suffixes: R ranks, S steps, N members of a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush, heappushpop

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from diagnosis.statistics.rank_tables import Bools, Floats, Ints, Ranks, placed, spread_cells
from diagnosis.statistics.straggler_cells import without_pauses

MIN_PEERS = 3
NOISE_STEPS = 20
NOISE_MADS = 3.0
KNOWN_SHARE = 0.9
"""CPU time is the measure where at least this share of the cells has it."""
_FEWEST_PAST = 3
STEPS_OF_PAST = 6
"""This many show a level where there is another one right behind it."""
_MUCH = 0.5
"""Share of the deviation that a split of mere noise never leaves: it leaves nearly all."""
_MOST_SPLITS = 1000
"""Looking for the greatest change takes time by its square."""


@dataclass(frozen=True)
class Work:
    """What every rank did in every step; NaN is unknown."""

    ranks: Ranks
    step_S: Ints
    work_RS: Floats  # ms, in `measure`
    step_ms_RS: Floats
    wait_caused_RS: Floats  # rank-ms
    measure: str  # cpu or wall; forward: time of forwards alone
    wall_RS: Floats  # ms of compute
    forward_RS: Floats  # ms of forwards alone, CPU time where compute is
    wait_RS: Floats  # ms in groups within one pipeline stage


@dataclass(frozen=True)
class Peers:
    """Who is compared with whom: ranks of one group number are each other's peers."""

    group_R: Ints
    whom_R: npt.NDArray[np.str_]  # dp, stage, own past or all ranks


def work_of(tables: Mapping[str, pa.Table]) -> Work:
    """Matrices of the answers `rank_work` and `rank_places`, without pauses counted as compute."""
    rank_R = np.unique(tables["rank_work"]["rank"].to_numpy()).astype(np.int64)
    ranks = placed(rank_R, tables["rank_places"])
    _, step_S, cells = spread_cells(without_pauses(tables["rank_work"], tables, ranks))
    compute_RS, cpu_RS = cells["compute_ms"], cells["cpu_ms"]
    compute_RS[compute_RS <= 0] = np.nan
    known = np.isfinite(compute_RS)
    by_cpu = ranks.on_cpu and bool(np.isfinite(cpu_RS[known]).sum() >= KNOWN_SHARE * known.sum())
    by_cpu &= bool(known.any())
    return Work(
        ranks,
        step_S,
        cpu_RS if by_cpu else compute_RS,
        cells["step_ms"],
        cells["wait_caused_ms"],
        "cpu" if by_cpu else "wall",
        compute_RS,
        cells["forward_cpu_ms" if by_cpu else "forward_ms"],
        cells["wait_ms"],
    )


def peers_of(ranks: Ranks) -> Peers:
    """Peers of every rank: over dp, else in the stage, else none but its own past."""
    pp, tp = (np.maximum(ranks.coords_R[axis], 0) for axis in ("pp", "tp"))
    role_R = np.unique(np.stack([pp, tp]), axis=1, return_inverse=True)[1].reshape(-1)
    stage_R = np.unique(pp, return_inverse=True)[1]
    many_R = np.bincount(role_R)[role_R] > MIN_PEERS
    some_R = np.bincount(stage_R)[stage_R] > MIN_PEERS
    roles, stages = role_R.max(initial=-1) + 1, stage_R.max(initial=-1) + 1
    group_R = np.where(
        many_R, role_R, np.where(some_R, roles + stage_R, roles + stages + np.arange(role_R.size))
    )
    over_all = "dp" if ranks.has_roles else "all ranks"
    whom_R = np.where(many_R, over_all, np.where(some_R, "stage", "own past"))
    return Peers(group_R.astype(np.int64), whom_R)


def slowdowns(work: Work, peers: Peers, trusted_R: Bools) -> Floats:
    """Slowdown of every rank and step against its trusted peers; NaN where it has too few."""
    slow_RS = np.full(work.work_RS.shape, np.nan)
    alone_R = peers.whom_R == "own past"
    for group in np.unique(peers.group_R[~alone_R]):
        members = np.flatnonzero(peers.group_R == group)
        values_NS = work.work_RS[members]
        slow_RS[members] = values_NS / medians_of_others(values_NS, trusted_R[members])
    if alone_R.any():
        is_whole = work.ranks.world_size == len(work.work_RS)
        slow_RS[alone_R] = _against_past(work.work_RS[alone_R], trusted_R[alone_R], is_whole)
    return slow_RS


def medians_of_others(values_NS: Floats, trusted_N: Bools) -> Floats:
    """Median of the trusted others of each member and step; NaN where there is none."""
    counted_NS = np.isfinite(values_NS) & trusted_N[:, None]
    shown_NS = np.where(counted_NS, values_NS, np.nan)
    order_NS = np.argsort(shown_NS, axis=0)
    sorted_NS = np.take_along_axis(shown_NS, order_NS, axis=0)
    place_NS = np.empty_like(order_NS)
    np.put_along_axis(place_NS, order_NS, np.arange(len(values_NS))[:, None], axis=0)
    others_NS = counted_NS.sum(axis=0) - counted_NS

    def element(index_NS: Ints) -> Floats:  # of the sorted others: one's own is skipped
        index_NS = index_NS + (counted_NS & (index_NS >= place_NS))
        return np.take_along_axis(sorted_NS, np.clip(index_NS, 0, len(values_NS) - 1), axis=0)

    middle_NS = (element((others_NS - 1) // 2) + element(others_NS // 2)) / 2
    return np.where(others_NS > 0, middle_NS, np.nan)


def _against_past(values_NS: Floats, trusted_N: Bools, is_whole: bool) -> Floats:
    """Each rank against its level before its own greatest change, less what the others changed.

    Two or three ranks do so where they are the whole job; one of them that grew quicker makes the
    others no slower.
    """
    few = 1 if is_whole else MIN_PEERS
    if len(values_NS) <= few:  # a change of the workload could not be distinguished
        return np.full(values_NS.shape, np.nan)
    past_N = np.array([level_before(row_S) for row_S in values_NS])
    ratio_NS = values_NS / past_N[:, None]
    relative_NS: Floats = ratio_NS / medians_of_others(ratio_NS, trusted_N)
    if len(values_NS) > MIN_PEERS:
        return relative_NS
    least_NS: Floats = np.minimum(relative_NS, ratio_NS)
    return least_NS


def level_before(row_S: Floats) -> float:
    """Median before the first lasting change; NaN of fewer than 6 known values.

    The greatest change is where a split leaves the least absolute deviation on both sides; one that
    went again may hold most of what lies before, so that this is split again while a split takes
    half of its deviation away. Values are above 0; many are taken together as medians of blocks.
    """
    known_S = row_S[np.isfinite(row_S)]
    if known_S.size > _MOST_SPLITS:
        known_S = np.array([np.median(block) for block in np.array_split(known_S, _MOST_SPLITS)])
    log_S = np.log(known_S)
    if log_S.size < 2 * _FEWEST_PAST:
        return float("nan")
    left, _ = _greatest_change(log_S, _FEWEST_PAST)
    while left >= STEPS_OF_PAST + _FEWEST_PAST:
        before, deviation = _greatest_change(log_S[:left], STEPS_OF_PAST)
        if deviation > _MUCH * _deviation(log_S[:left]):
            break
        left = before
    return float(np.exp(np.median(log_S[:left])))


def _greatest_change(log_S: Floats, fewest: int) -> tuple[int, float]:
    """Number of values before the change, at least `fewest`, and the deviation it leaves."""
    left_S = deviations_of_heads(log_S)
    right_S = deviations_of_heads(log_S[::-1])[::-1]
    splits_S = (
        left_S[fewest - 1 : -_FEWEST_PAST] + right_S[fewest : right_S.size - _FEWEST_PAST + 1]
    )
    best = int(np.argmin(splits_S))
    return best + fewest, float(splits_S[best])


def deviations_of_heads(values_S: Floats) -> Floats:
    """Sum of the absolute deviations from the median, of the first value, the first two, ..."""
    below: list[float] = []  # a heap of the negated lower half, which holds the median
    above: list[float] = []
    sum_below = sum_above = 0.0
    deviations = []
    for value in values_S.tolist():
        greatest = -heappushpop(below, -value)
        heappush(above, greatest)
        sum_below, sum_above = sum_below + value - greatest, sum_above + greatest
        if len(above) > len(below):
            least = heappop(above)
            heappush(below, -least)
            sum_below, sum_above = sum_below + least, sum_above - least
        median = -below[0] if len(below) > len(above) else 0.0
        deviations.append(sum_above - sum_below + median)
    return np.array(deviations)


def _deviation(values: Floats) -> float:
    return float(np.abs(values - np.median(values)).sum())


def noises(slow_RS: Floats, peers: Peers, trusted_R: Bools) -> Floats:
    """Noise of every rank, x: 3 MAD over its trusted peers and the last 20 steps; NaN unknown."""
    noise_R = np.full(len(slow_RS), np.nan)
    recent_RS = slow_RS[:, -NOISE_STEPS:]
    for group in np.unique(peers.group_R):
        in_group = peers.group_R == group
        cells = recent_RS[in_group & trusted_R]
        cells = cells[np.isfinite(cells)]
        if cells.size:
            noise_R[in_group] = NOISE_MADS * np.median(np.abs(cells - np.median(cells)))
    return noise_R


def step_noises(slow_RS: Floats, peers: Peers) -> Floats:
    """The same from step to step within each rank: levels that differ for good do not enter."""
    noise_R = np.full(len(slow_RS), np.nan)
    jumps_RS = np.abs(np.diff(slow_RS, axis=1)) / np.sqrt(2)
    for group in np.unique(peers.group_R):
        in_group = peers.group_R == group
        cells = jumps_RS[in_group]
        cells = cells[np.isfinite(cells)]
        if cells.size:
            noise_R[in_group] = NOISE_MADS * np.median(cells)
    return noise_R

"""Values of ranks from their differences inside groups that share ranks.

A tie is one member's deviation from its group: value = (the group's constant) - x[rank] + noise.
Shape suffixes: T ties, R ranks (numbered from 0), G groups (numbered from 0).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

_PRECISE = 1e-24


@dataclass(frozen=True)
class Ties:
    """Ties between groups and ranks; noise is one standard deviation, inf: without information."""

    group_T: Ints
    rank_T: Ints
    value_T: Floats
    noise_T: Floats
    num_ranks: int

    @property
    def weight_T(self) -> Floats:
        """1 / variance."""
        return 1.0 / self.noise_T**2

    @property
    def num_groups(self) -> int:
        """Groups there are."""
        return int(self.group_T.max(initial=-1)) + 1


def least_squares(ties: Ties) -> Floats:
    """x_R of least weighted squares, known up to a constant of each connected part.

    Conjugate gradients on the normal equations, with the groups' constants eliminated.
    """
    weight_R = _summed(ties.rank_T, ties.weight_T, ties.num_ranks)
    scale_R = np.where(weight_R > 0, weight_R, 1.0)
    rest_R = -_pull(ties, ties.value_T)
    x_R, direction_R = np.zeros(ties.num_ranks), rest_R / scale_R
    size = begun = float(rest_R @ direction_R)
    for _ in range(4 * (ties.num_ranks + ties.num_groups)):
        if size <= _PRECISE * begun:
            break
        pulled_R = _pull(ties, direction_R[ties.rank_T])
        curvature = float(direction_R @ pulled_R)
        if curvature <= 0:  # rounding: as precise as it gets
            break
        far = size / curvature
        x_R, rest_R = x_R + far * direction_R, rest_R - far * pulled_R
        before, size = size, float(rest_R @ (rest_R / scale_R))
        direction_R = rest_R / scale_R + (size / before) * direction_R
    return x_R


def misfits(ties: Ties, x_R: Floats) -> Floats:
    """What is left of each tie's value once x is known."""
    return _against_group(ties, ties.value_T + x_R[ties.rank_T])


def _pull(ties: Ties, value_T: Floats) -> Floats:
    """Weighted deviation from the group's mean, summed per rank."""
    weighted_T = ties.weight_T * _against_group(ties, value_T)
    return _summed(ties.rank_T, weighted_T, ties.num_ranks)


def _against_group(ties: Ties, value_T: Floats) -> Floats:
    total_G = _summed(ties.group_T, ties.weight_T, ties.num_groups)
    mean_G = _summed(ties.group_T, ties.weight_T * value_T, ties.num_groups)
    with np.errstate(invalid="ignore"):  # groups without information
        against_T: Floats = value_T - (mean_G / total_G)[ties.group_T]
    return np.where(ties.weight_T > 0, against_T, 0.0)


def _summed(place_T: Ints, value_T: Floats, num_places: int) -> Floats:
    return np.bincount(place_T, weights=value_T, minlength=num_places).astype(np.float64)


def deviations_from(ties: Ties, base: int) -> Floats:
    """Standard deviation of each rank's x against rank `base`'s along the best path; inf: none.

    Least squares over all paths is at least as good as the best one of them.
    """
    edges: dict[int, list[tuple[int, float]]] = defaultdict(list)
    columns = (ties.group_T + ties.num_ranks, ties.rank_T, ties.noise_T**2)  # groups behind ranks
    for group, rank, variance in zip(*(column.tolist() for column in columns), strict=True):
        if variance < np.inf:
            edges[group].append((rank, variance))
            edges[rank].append((group, variance))
    variance_of = {base: 0.0}
    waiting = [(0.0, base)]
    while waiting:  # Dijkstra
        so_far, node = heapq.heappop(waiting)
        for other, variance in edges[node] if so_far <= variance_of[node] else []:
            if so_far + variance < variance_of.get(other, np.inf):
                variance_of[other] = so_far + variance
                heapq.heappush(waiting, (so_far + variance, other))
    variance_R = np.array([variance_of.get(rank, np.inf) for rank in range(ties.num_ranks)])
    deviation_R: Floats = np.sqrt(variance_R)
    return deviation_R


def largest_part(ties: Ties) -> Ints:
    """Ranks of the largest part connected by ties; of equal ones that of the lowest rank."""
    edges: dict[int, list[int]] = defaultdict(list)
    for group, rank in zip(
        (ties.group_T + ties.num_ranks).tolist(), ties.rank_T.tolist(), strict=True
    ):
        edges[group].append(rank)
        edges[rank].append(group)
    best: list[int] = []
    seen: set[int] = set()
    for rank in range(ties.num_ranks):
        part = [] if rank in seen else _reached(edges, rank, seen)
        ranks = [node for node in part if node < ties.num_ranks]
        best = ranks if len(ranks) > len(best) else best
    return np.array(sorted(best), np.int64)


def _reached(edges: dict[int, list[int]], start: int, seen: set[int]) -> list[int]:
    """All nodes connected to one; they are added to `seen`."""
    seen.add(start)
    part = [start]
    for node in part:
        new = [other for other in edges[node] if other not in seen]
        seen.update(new)
        part += dict.fromkeys(new)
    return part

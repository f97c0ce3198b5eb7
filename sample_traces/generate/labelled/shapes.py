"""Sizes of drawn jobs, and which faults a job of each size can have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Shape = tuple[int, int, int]
"""pp, dp, tp."""

SHAPES: tuple[Shape, ...] = (
    (1, 8, 1),
    (1, 16, 1),
    (1, 64, 1),
    (1, 4, 2),
    (1, 8, 4),
    (1, 2, 8),
    (1, 1, 8),
    (2, 1, 2),
    (2, 1, 8),
    (2, 2, 4),
    (2, 4, 1),
    (2, 4, 2),
    (2, 16, 1),
    (2, 8, 4),
    (2, 2, 8),
    (2, 32, 1),
    (3, 4, 1),
    (3, 2, 4),
    (4, 1, 1),
    (4, 1, 4),
    (4, 2, 2),
    (4, 4, 1),
    (4, 8, 2),
    (4, 2, 8),
    (4, 16, 1),
    (8, 1, 1),
    (8, 2, 1),
    (8, 1, 4),
    (8, 4, 2),
    (8, 8, 1),
    (8, 1, 8),
)


def fits(kind: str, shape: Shape) -> bool:
    """Whether a job of this shape can have the fault at all."""
    return _NEEDS.get(kind, _any)(*shape)


def _any(pp: int, dp: int, tp: int) -> bool:
    return True


_NEEDS: dict[str, Callable[[int, int, int], bool]] = {
    "sequence_imbalance": lambda pp, dp, tp: dp > 1,
    "slow_stage": lambda pp, dp, tp: pp > 1,
    "slow_link": lambda pp, dp, tp: pp > 1,
    "slow_dp_network": lambda pp, dp, tp: dp > 1,
    "slow_node_link": lambda pp, dp, tp: tp > 1 and pp * dp * tp > 8,
    "host_contention": lambda pp, dp, tp: pp * dp * tp > 8,
    "clock_unaligned": lambda pp, dp, tp: pp * dp * tp > 8,
    "slow_host": lambda pp, dp, tp: pp * dp * tp > 16,
    "many_hosts_slow": lambda pp, dp, tp: pp * dp * tp >= 48,
    "link_flap": lambda pp, dp, tp: pp > 1,
    "slow_checkpoint": lambda pp, dp, tp: pp * dp * tp > 3,
    "data_gaps": lambda pp, dp, tp: pp * dp * tp > 3,
}


def small_more_often(random: np.random.Generator, shapes: Sequence[Shape]) -> Shape:
    """Small jobs more often: a big one costs as much as many of them."""
    weights = np.array([1 / math.sqrt(math.prod(shape)) for shape in shapes])
    return shapes[int(random.choice(len(shapes), p=weights / weights.sum()))]

"""Which phases of a step hide waiting: timers that go on while a rank waits for the others.

In a synchronous job all ranks leave a step together. A rank that arrives late waits less, so the
phase in which ranks wait is SHORTER on the late rank by what its other phases are longer. Two
signs, measured over the ranks within each step, decide it from the data of each run:

absorbed   how far a phase is shorter where the rest of the step is longer: 1 where it mirrors it,
           0 where it knows nothing of it (where communication was recorded whole, communication
           takes it back)
one-sided  in a phase that holds waiting few ranks stand out with LESS than the others: those that
           come late. In the phase that delays them, few stand out with MORE.

The first alone cannot distinguish cause and effect: a late loader and the compute timer in which
its peers wait mirror each other. The second assumes that the late ranks of a step are fewer than
those that wait for them.

Source: late arrival, not long duration, names the culprit (MegaScale, 2402.15627); the rule is
ours. Shape suffixes: R ranks, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diagnosis.statistics.peers import MIN_PEERS
from diagnosis.statistics.rank_tables import Floats, Ints

BORDER = 0.25
"""Between this share and 1 less it, a phase is neither clearly waiting nor clearly work."""

_STANDS_OUT = 0.03
"""Of a step: what counts as standing out from the other ranks (as phase_times.MIN_EXCESS)."""

_LEAST_SEEN = 0.3
"""Shares of steps that must stand out in all, as ten cells of the least size: less is noise."""

_ONE_SIDED = 0.5
"""One-sidedness, -1 to 1, from which on one side is clearly the few: three times as much there."""


def hidden_shares(
    phases: Mapping[str, Floats], window_S: Floats, stage_R: Ints
) -> dict[str, float] | None:
    """Share of the waiting that each phase (ms, R x S) takes up, 0 to 1; None where the ranks
    differ too little to tell.
    """
    beyond = {
        name: _beyond_middle(value_RS, window_S, stage_R) for name, value_RS in phases.items()
    }
    all_RS = np.sum(list(beyond.values()), axis=0)
    if not sum(_standing_out(value_RS)[0] for value_RS in beyond.values()) >= _LEAST_SEEN:
        return None
    return {
        name: _absorbed(value_RS, all_RS - value_RS) * _one_sided(value_RS)
        for name, value_RS in beyond.items()
    }


def is_clear(share: float) -> bool:
    """Whether it is clear that a phase holds waiting, or that it does not."""
    return abs(share - 1 / 2) >= 1 / 2 - BORDER


def _beyond_middle(value_RS: Floats, window_S: Floats, stage_R: Ints) -> Floats:
    """Less the median of the stage, share of a step; 0 where unknown or with few peers."""
    beyond_RS = np.zeros(value_RS.shape)
    for stage in np.unique(stage_R):
        rows = np.flatnonzero(stage_R == stage)
        if rows.size <= MIN_PEERS:
            continue
        value_NS = np.nan_to_num(value_RS[rows])
        beyond_RS[rows] = (value_NS - np.median(value_NS, axis=0)) / window_S
    return np.nan_to_num(beyond_RS)


def _standing_out(beyond_RS: Floats) -> tuple[float, float]:
    """What ranks have more and less than the others, sums of the cells that stand out."""
    more = float(beyond_RS[beyond_RS > _STANDS_OUT].sum())
    return more, -float(beyond_RS[beyond_RS < -_STANDS_OUT].sum())


def _absorbed(beyond_RS: Floats, rest_RS: Floats) -> float:
    """How far a phase mirrors the rest of the step, 0 to 1: what both have in common with opposite
    signs, of the one that varies more.
    """
    more = max(float((rest_RS * rest_RS).sum()), float((beyond_RS * beyond_RS).sum()))
    common = -float((beyond_RS * rest_RS).sum()) / more if more > 0 else 0.0
    return min(max(common, 0.0), 1.0)


def _one_sided(beyond_RS: Floats) -> float:
    """1 where the few have less, 0 where both sides are even or the few have more."""
    more, less = _standing_out(beyond_RS)
    side = (less - more) / (less + more) if less + more > 0 else 0.0
    return min(max(side / _ONE_SIDED, 0.0), 1.0)

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

Where launches are asynchronous, ranks do not leave a step together, but wait in a timer of the next
one: what a rank takes longer than its peers, added up over all steps so far, is how far it is
behind. A phase that mirrors how far ranks were behind one step earlier holds that waiting; what
comes later is no cause, so that this sign needs no second.

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
    later = _absorbed_later(beyond, window_S, stage_R)
    return {
        name: max(_absorbed(value_RS, all_RS - value_RS) * _one_sided(value_RS), later[name])
        for name, value_RS in beyond.items()
    }


def mirrored_share(
    phases: Mapping[str, Floats], name: str, window_S: Floats, stage_R: Ints
) -> float:
    """How far a phase mirrors the rest of the step within it, 0 to 1: one of the two then holds
    waiting, whichever it is.
    """
    beyond = {
        name: _beyond_middle(value_RS, window_S, stage_R) for name, value_RS in phases.items()
    }
    rest_RS = np.sum([beyond[other] for other in beyond if other != name], axis=0)
    return _absorbed(beyond[name], rest_RS)


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


def _absorbed_later(
    beyond: Mapping[str, Floats], window_S: Floats, stage_R: Ints
) -> dict[str, float]:
    """How far each phase takes up what ranks were behind one step earlier, BORDER to 1, or 0.

    How far behind a rank began is not known, so phases are compared with how that changed over
    _APART steps: half of this lies at either end. It is no waiting where it changes far less than
    phases vary, as ranks leave a step at slightly different moments, or far more over _LONG steps:
    then the others caught up with the late rank at once.
    """
    ms = {name: value_RS * np.nan_to_num(window_S) for name, value_RS in beyond.items()}
    behind_RS = np.cumsum(np.sum(list(ms.values()), axis=0), axis=1)
    behind_RS = _beyond_middle(behind_RS, np.ones(window_S.size), stage_R)
    change_RS = behind_RS[:, _APART:-1] - behind_RS[:, : -_APART - 1]
    long_RS = behind_RS[:, _LONG:] - behind_RS[:, :-_LONG]
    later = {name: _swing(value_RS[:, _APART + 1 :]) for name, value_RS in ms.items()}
    varies = max(_squares(later_RS) for later_RS in later.values())
    most = max(_squares(change_RS), varies / 2, _squares(long_RS) / 2)
    common = {name: -2 * float((later_RS * change_RS).sum()) for name, later_RS in later.items()}
    shares = {name: of / most if most > 0 else 0.0 for name, of in common.items()}
    return {name: min(share, 1.0) if share >= BORDER else 0.0 for name, share in shares.items()}


_APART, _LONG = 3, 20
"""Steps: what a rank does by itself in one of them hardly differs from chance three later."""


def _squares(value_RS: Floats) -> float:
    return float((value_RS * value_RS).sum())


def _swing(value_RS: Floats) -> Floats:
    """Less the mean of each rank."""
    swing_RS: Floats = value_RS - value_RS.sum(axis=1, keepdims=True) / max(value_RS.shape[1], 1)
    return swing_RS


def _one_sided(beyond_RS: Floats) -> float:
    """1 where the few have less, 0 where both sides are even or the few have more."""
    more, less = _standing_out(beyond_RS)
    side = (less - more) / (less + more) if less + more > 0 else 0.0
    return min(max(side / _ONE_SIDED, 0.0), 1.0)

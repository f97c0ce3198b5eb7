"""Whether members of a group give its collectives the same numbers, by the intervals between ends.

Ends compare clocks only where each member means the same collective by the same number. A profile
that began later, or counts from its own beginning, is off by some; where collectives come at
regular intervals, that looks like a clock that is off, and scatters little. But no two intervals
are quite equal, and all members see the same ones, whatever their clocks: numbered the same, their
intervals agree within microseconds; shifted by any number, they differ by what the job varies.

A member is numbered correctly where its intervals fit the others' at least `PLAINLY` times better
than shifted by 1 to 32 instances, and wrongly where another shift fits so much better. Between
the two the intervals do not decide (a job as regular as a clock, too few instances).
False where instances were thinned out: shifts by fewer than one that was kept show as scatter only.

Shape suffixes: K instances, J intervals (K - 1), M members, L shifts.
"""

from __future__ import annotations

import numpy as np

from diagnosis.clocks.offset_graph import Floats

PLAINLY = 4.0
"""Medians of a dozen equal scatters differ by less."""
LEAST_MEMBERS = 3
"""Of two that disagree it is unknown which is wrong."""
_LEAST_OVERLAP = 12
_LEAST_SHIFTS, _MOST_SHIFTS = 3, 32
_LEAST_NOISE_NS = 2_000.0
"""As in diagnosis.clocks.alignment: finer differences say nothing."""


def sharpness(end_KM: Floats) -> Floats:
    """Of each member, how many times better its ends fit as numbered than shifted; 0 unknown."""
    scatter_LM = _scatters(end_KM)
    if len(scatter_LM) <= 2 * _LEAST_SHIFTS or end_KM.shape[1] < LEAST_MEMBERS:
        return np.zeros(end_KM.shape[1])
    as_numbered = len(scatter_LM) // 2
    shifted_M: Floats = np.delete(scatter_LM, as_numbered, axis=0).min(axis=0)
    sharpness_M: Floats = shifted_M / scatter_LM[as_numbered]
    return sharpness_M


def fits_better_elsewhere(end_KM: Floats) -> int | None:
    """The member that fits plainly better shifted, most of all; None where none does."""
    sharpness_M = sharpness(end_KM)
    known_M = np.where(sharpness_M > 0, sharpness_M, np.inf)
    worst = int(np.argmin(known_M))
    return worst if known_M[worst] <= 1 / PLAINLY else None


def _scatters(end_KM: Floats) -> Floats:
    """Robust scatter of each member's intervals against the others', for shifts from -L to L."""
    interval_JM = np.diff(end_KM, axis=0)
    num_intervals = len(interval_JM)
    common_J = np.median(interval_JM, axis=1) if num_intervals else np.zeros(0)
    most = max(min(_MOST_SHIFTS, num_intervals - _LEAST_OVERLAP), 0)
    scatters = []
    for shift in range(-most, most + 1):
        own, others = max(shift, 0), max(-shift, 0)
        length = num_intervals - abs(shift)
        against_JM = interval_JM[own : own + length] - common_J[others : others + length, None]
        scatters.append(_scatter(against_JM))
    return np.array(scatters)


def _scatter(value_JM: Floats) -> Floats:
    if not len(value_JM):
        return np.full(value_JM.shape[1], _LEAST_NOISE_NS)
    distance_JM = np.abs(value_JM - np.median(value_JM, axis=0))
    scatter_M: Floats = 1.4826 * np.median(distance_JM, axis=0)
    return np.clip(scatter_M, _LEAST_NOISE_NS, None)

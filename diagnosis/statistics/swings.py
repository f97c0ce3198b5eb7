"""How far ranks swing by themselves, and which are later than any swing.

Where hosts are busy, each rank is late for a while now and then, evenly enough to look like a
culprit. Such swings show in the other ranks of the same run: what they are late by, on average over
as many steps in a row, has a spread. A culprit exceeds it many times, and any single swing at least
twice: swings that most ranks never have do not show in a spread.

Source: means over windows of the same length are what a scan statistic compares with (Naus 1965);
the rule is ours. Assumes: most ranks are healthy in most windows. Shape suffixes: R ranks, S steps,
W windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diagnosis.statistics.phase_times import middles
from diagnosis.statistics.rank_tables import Floats, Ints

LEAST_BEYOND = 7.0
"""Standard deviations of swings that a culprit is late by, at least. On generated jobs wrong names
reach 6 and few right ones lie below 8."""

LEAST_APART = 2.0
"""Times the greatest mean of any rank over as many steps in a row, its own other steps included."""

_SIGMAS_PER_MAD = 1.4826
_FEWEST_WINDOWS = 3
"""Of each rank: of longer episodes shorter windows are compared, which swing more."""

_MANY = 20
"""Steps. Among fewer, one or two long ones are a good part of a swing."""

Span = tuple[int, int, int]
"""Row of a rank, first and last column."""


def no_swings(excess_RS: Floats, stage_R: Ints, spans: Sequence[Span]) -> dict[int, float]:
    """Indices of the accused whose excess is beyond all swings, and by how many standard deviations
    of them; infinite where others do not swing at all.

    What all accused do in their spans is left out of the swings at first; of those that are not
    beyond them the lower half is dropped at once, and becomes part of the swings.
    """
    left = dict(enumerate(spans))
    while left:
        beyond = _beyond(excess_RS, stage_R, left)
        low = {i for i in left if beyond[i] < LEAST_BEYOND} | _not_apart(excess_RS, left)
        below = sorted(low, key=lambda i: beyond[i])
        if not below:
            return beyond
        for index in below[: -(-len(below) // 2)]:
            del left[index]
    return {}


def _beyond(excess_RS: Floats, stage_R: Ints, accused: Mapping[int, Span]) -> dict[int, float]:
    others_RS = excess_RS.copy()
    for row, first, last in accused.values():
        others_RS[row, first : last + 1] = np.nan
    spreads: dict[tuple[int, int], float] = {}
    beyond = {}
    for index, (row, first, last) in accused.items():
        key = int(stage_R[row]), last - first + 1
        peers_RS = others_RS[stage_R == key[0]]
        if key not in spreads:
            spreads[key] = _spread(peers_RS, key[1])
        own_S = excess_RS[row, first : last + 1]
        shift = np.nan_to_num(middles(peers_RS[:, first : last + 1]))
        mean = float(np.nanmean(own_S - shift)) if np.isfinite(own_S).any() else 0.0
        beyond[index] = mean / spreads[key] if spreads[key] > 0 else float("inf")
    return beyond


def _not_apart(excess_RS: Floats, accused: Mapping[int, Span]) -> set[int]:
    """Indices of the accused that some rank was late by half as much as, outside of all spans.

    Against many steps a single one counts at most what the accused is late by on average: few long
    ones are no swing.
    """
    others_RS = np.nan_to_num(excess_RS)
    for row, first, last in accused.values():
        others_RS[row, first : last + 1] = 0.0
    most: dict[int, float] = {}
    found = set()
    for index, (row, first, last) in accused.items():
        length = last - first + 1
        if length not in most:
            most[length] = _greatest_mean(others_RS, length)
        own_S = excess_RS[row, first : last + 1]
        own = float(np.nanmean(own_S)) if np.isfinite(own_S).any() else float("inf")
        if own < LEAST_APART * most[length]:
            capped_RS = np.minimum(others_RS, max(own, 0.0))
            is_few = length >= _MANY and own >= LEAST_APART * _greatest_mean(capped_RS, length)
            if not is_few:
                found.add(index)
    return found


def _greatest_mean(excess_RS: Floats, length: int) -> float:
    """Of any rank over so many steps in a row."""
    sums_RS = np.cumsum(np.pad(excess_RS, ((0, 0), (1, 0))), axis=1)
    return float((sums_RS[:, length:] - sums_RS[:, :-length]).max()) / length


def _spread(excess_RS: Floats, length: int) -> float:
    """Standard deviation, by the MAD, of means over windows of so many steps, of each window around
    its median rank, as culprits shift all others; 0 of no windows.
    """
    num_steps = excess_RS.shape[1]
    length = max(min(length, num_steps // _FEWEST_WINDOWS), 1)
    num = num_steps // length
    windows_RWS = excess_RS[:, : num * length].reshape(len(excess_RS), num, length)
    known_RW = np.isfinite(windows_RWS).sum(axis=2)
    means_RW = np.nansum(windows_RWS, axis=2) / np.maximum(known_RW, 1)
    means_RW[2 * known_RW < length] = np.nan
    apart = np.abs(means_RW - middles(means_RW))
    apart = apart[np.isfinite(apart)]
    return _SIGMAS_PER_MAD * float(np.median(apart)) if apart.size else 0.0

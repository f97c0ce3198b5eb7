"""Stretches of steps in which a rank is slow: since when, until when.

Every step votes: +1 where its excess is at least twice the threshold, 0 at the threshold, -1 where
there is none. A stretch is where the votes add up most (the greatest sum of neighbours), so that a
single spike never makes one and a single quick step never ends one; as many votes as make one, cast
against it, divide it in two, and so do as many for twice its median: a rank that was a little slow
and is far slower since some step has an episode of each. Its ends are then drawn where the excess
passes half of the stretch's own median: a change is best placed halfway (CUSUM, Page 1954).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MIN_VOTES = 4.0
"""Four steps at twice the threshold, or more of smaller excess. With noise of 3 MAD (2 sigma) a
healthy rank of Gaussian noise gets there less than once in 1e9 steps (tests: none in 20 runs)."""


OVER_AFTER_STEPS = 3
"""An episode is over when this many steps without it have followed."""

RECURRING_VOTES = 2 * MIN_VOTES
FEWEST_BURSTS, SHORTEST_BURST = 3, 2
"""What comes and goes in bursts too short for an episode: three of two steps or more, and together
twice the votes. Gaussian noise has a burst of full votes less than once in 1e8 steps."""

BEGUN_VOTES = 2.0
"""So many at the newest steps are worth a note: what began may last, or be over."""


@dataclass(frozen=True)
class Episode:
    """Indices of the first and last slow step, both included, and the median excess between."""

    first: int
    last: int
    excess: float


def votes(excess: Floats, threshold: Floats | float) -> Floats:
    """Vote of each step, -1 to 1; 0 where the excess is unknown."""
    return np.nan_to_num(np.clip((excess - threshold) / threshold, -1.0, 1.0))


def may_be_slow(excess_RS: Floats, threshold_R: Floats) -> Bools:
    """Which ranks have an episode at all: the greatest sum of neighbouring votes of each."""
    votes_RS = votes(excess_RS, threshold_R[:, None])
    running_R, best_R = np.zeros(len(votes_RS)), np.zeros(len(votes_RS))
    for vote_R in votes_RS.T:
        running_R = np.maximum(running_R + vote_R, 0.0)
        best_R = np.maximum(best_R, running_R)
    return best_R >= MIN_VOTES


def episodes(excess_S: Floats, threshold: float) -> list[Episode]:
    """Episodes of one rank, in order of time.

    The greatest sum is one; what lies before and after it is searched in the same way.
    """
    unsorted: list[Episode] = []
    vote_S = votes(excess_S, threshold)
    ranges = [(0, len(excess_S))]
    while ranges:
        low, high = ranges.pop()
        first, last, score = greatest_sum(vote_S[low:high])
        if score < MIN_VOTES:
            continue
        middle = float(np.nanmedian(excess_S[low + first : low + last + 1]))
        halfway = max(middle / 2, threshold)
        begin, end, _ = greatest_sum(votes(excess_S[low:high], halfway))
        if end < first or begin > last:  # a short, higher peak elsewhere: its own episode later
            begin, end = first, last
        begin, end = low + begin, low + end
        pause = _pause(excess_S[begin : end + 1], halfway)
        higher = _higher(excess_S[begin : end + 1])
        if pause is not None:
            ranges += [(low, begin + pause[0]), (begin + pause[1] + 1, high)]
        elif higher is not None:
            rises, falls = begin + higher[0], begin + higher[1] + 1
            ranges += [(low, rises), (rises, falls), (falls, high)]
        else:
            unsorted.append(Episode(begin, end, float(np.nanmedian(excess_S[begin : end + 1]))))
            ranges += [(low, begin), (end + 1, high)]
    return sorted(unsorted, key=lambda episode: episode.first)


def may_recur(excess_RS: Floats, threshold_R: Floats) -> Bools:
    """Which ranks may have recurring bursts: who has the votes for them."""
    positive_RS = np.maximum(votes(excess_RS, threshold_R[:, None]), 0.0)
    enough: Bools = positive_RS.sum(axis=1) >= RECURRING_VOTES
    return enough


def recurring(excess_S: Floats, threshold: float) -> list[Episode]:
    """Bursts of what comes and goes, each an episode of few steps; none where they are too few."""
    vote_S = votes(excess_S, threshold)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], vote_S > 0, [0])).astype(np.int8)))
    runs = edges.reshape(-1, 2).tolist()
    bursts = [(first, end) for first, end in runs if end - first >= SHORTEST_BURST]
    total = sum(float(vote_S[first:end].sum()) for first, end in bursts)
    if len(bursts) < FEWEST_BURSTS or total < RECURRING_VOTES:
        return []
    num = sum(end - first for first, end in bursts)
    if num < LEAST_DENSE * (bursts[-1][1] - bursts[0][0]):
        return []
    return [
        Episode(first, end - 1, float(np.nanmedian(excess_S[first:end]))) for first, end in bursts
    ]


FEWEST_HITS, LEAST_DENSE = 5, 1 / 8
"""Single steps that come again: so many full votes (of noise four sigma each), and so many of the
steps from the first to the last. What is rarer are spikes (diagnosis/detectors/jit_spikes.py)."""

_CHANCE = 1e-3
"""That any rank of a job gets there where what hits it hits all its peers equally."""


def sporadic(
    excess_NS: Floats, threshold_N: Floats, least_dense: float = LEAST_DENSE
) -> dict[int, list[Episode]]:
    """Peers that are slow in single steps time and again, more often than what hits one peer after
    the other (collections, uneven work) would by chance. By index of the peer, an episode a step.
    """
    hit_NS = votes(excess_NS, threshold_N[:, None]) >= 1.0
    num_N = hit_NS.sum(axis=1)
    by_row = {}
    for row in np.flatnonzero(num_N >= FEWEST_HITS).tolist():
        first, last, _ = greatest_sum(hit_NS[row] - least_dense)
        at = first + np.flatnonzero(hit_NS[row, first : last + 1])
        others = len(num_N) - 1
        usual = (int(num_N.sum()) - int(num_N[row]) + 1) / max(others, 1)
        is_chance = len(num_N) * _at_least(at.size, usual) > _CHANCE
        if at.size >= FEWEST_HITS and others and not is_chance:
            by_row[row] = [Episode(int(s), int(s), float(excess_NS[row, s])) for s in at]
    return by_row


def _at_least(num: int, mean: float) -> float:
    """Chance of so many or more (Poisson)."""
    fewer = sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(num))
    return max(1.0 - fewer, 0.0)


def begun(excess_S: Floats, threshold: float) -> Episode | None:
    """What began in the newest steps and is not known to last: at least BEGUN_VOTES up to now."""
    newest_S = np.cumsum(votes(excess_S, threshold)[::-1])
    if not newest_S.size or newest_S.max() < BEGUN_VOTES:
        return None
    last = excess_S.size - 1
    first = last - int(newest_S.argmax())
    return Episode(first, last, float(np.nanmedian(excess_S[first:])))


def _pause(excess_S: Floats, halfway: float) -> tuple[int, int] | None:
    """Where it stopped in between: as many votes against it as make an episode."""
    vote_S = votes(excess_S, halfway)
    first, last, against = greatest_sum(-vote_S)
    sides = (vote_S[:first], vote_S[last + 1 :])
    is_between = all(greatest_sum(side)[2] >= MIN_VOTES for side in sides)
    return (first, last) if against >= MIN_VOTES and is_between else None


def _higher(excess_S: Floats) -> tuple[int, int] | None:
    """Where a part of an episode is far higher than its median; None where that is all of it."""
    usual = float(np.nanmedian(excess_S))
    if not usual > 0:
        return None
    first, last, score = greatest_sum(votes(excess_S, 2 * usual))
    is_part = last - first + 1 < len(excess_S)
    return (first, last) if score >= MIN_VOTES and is_part else None


_EQUAL = 1e-9
"""Sums of votes that differ by less differ by rounding alone."""


def greatest_sum(values: Floats) -> tuple[int, int, float]:
    """First and last index (included) of the neighbours with the greatest sum, and the sum.

    Of equal ones the first and shortest; (0, -1, 0.0) where no sum is positive. Without a loop in
    Python: a rank may have thousands of episodes.
    """
    if not values.size:
        return 0, -1, 0.0
    total = np.zeros(values.size + 1)
    np.cumsum(values, out=total[1:])
    lowest = np.minimum.accumulate(total[:-1])
    sums = total[1:] - lowest
    last = int((sums >= sums.max() - _EQUAL).argmax())
    if sums[last] <= _EQUAL:
        return 0, -1, 0.0
    first = last - int((total[last::-1] <= lowest[last] + _EQUAL).argmax())
    return first, last, round(float(sums[last]), 9)

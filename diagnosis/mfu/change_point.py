"""Since when steps take longer than before, by however little: at once or slowly.

diagnosis/statistics/step_levels.py finds rises of 5 % and more, and how long they last. What it
does not see is looked for here in the means of blocks of steps (diagnosis/mfu/cusum.py): in usual
steps, then in parts that are neither compute nor waiting, whose noise would hide them, then in
how many steps are unusually long, as one of them would outweigh a hundred others.

Shape suffixes: S steps, B blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diagnosis.mfu.comparison import FEWEST as FEWEST_COMPARED
from diagnosis.mfu.cusum import climb, half_found
from diagnosis.mfu.cusum import rise as rise_of_blocks
from diagnosis.mfu.windows import LONG_MADS, is_long
from diagnosis.statistics.episodes import OVER_AFTER_STEPS
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.step_levels import FEWEST_STEPS as LEVEL_STEPS
from diagnosis.statistics.step_levels import WARM_UP_STEPS, Rise, rises

Floats = npt.NDArray[np.float64]

BLOCK = 10
"""Steps. Patterns of every second, fifth or tenth step average out in it."""
FEWEST_STEPS, _MOST_BLOCKS = 80, 100
"""Blocks of a long run are longer."""
LEAST = 0.01
"""Share of a step: stretches of tens of steps of a healthy job differ by as much."""


@dataclass(frozen=True)
class Decline:
    """Indices of steps, first and last: those that are longer, and those to compare them with.
    `first`: since when. `slowly`: they become longer all the time, so `after` has the last of them.
    `part`: it shows in this part alone. `long_steps`: there are
    more unusually long ones, and the usual ones are as before.
    """

    before: tuple[int, int]
    after: tuple[int, int]
    first: int
    slowly: bool = False
    part: str | None = None
    long_steps: bool = False


def decline(work_ms_S: Floats, parts: Mapping[str, Floats] | None = None) -> Decline | None:
    """Since when a job's steps, for the same work, take longer, ms; None where they do not.
    `parts`: times of some parts of these steps, ms.
    """
    higher = [rise for rise in rises(work_ms_S) if _lasts(rise)]
    going_on = [r for r in higher if work_ms_S.size - 1 - r.last < OVER_AFTER_STEPS]
    if going_on:
        return _of_rise(going_on)
    steady_S = work_ms_S.copy()
    for rise in higher:  # over: a change that lasts comes first
        steady_S[rise.first : rise.last + 1] *= rise.before_ms / rise.now_ms
    found = _small(steady_S, parts or {})
    return found if found or not higher else _of_rise(higher)


def _of_rise(higher: Sequence[Rise]) -> Decline:
    """The one that costs most."""
    greatest = max(higher, key=lambda rise: rise.excess * (rise.last - rise.first + 1))
    before = WARM_UP_STEPS, greatest.first - 1
    return Decline(before, (greatest.first, greatest.last), greatest.first)


def _small(work_ms_S: Floats, parts: Mapping[str, Floats]) -> Decline | None:
    """A rise of usual steps, of a part, or of the number of long steps: the first that is found."""
    value_S = work_ms_S[WARM_UP_STEPS:]
    if value_S.size < FEWEST_STEPS:
        return None
    usual_S = np.exp(_usual(work_ms_S))
    found = _risen(_usual(value_S), usual_S, usual_S)
    for name, part_S in parts.items():
        ranked_S = _ranked(part_S[WARM_UP_STEPS:])
        risen = None if found else _risen(ranked_S, part_S, usual_S, climbs=False)
        found = found or (risen and replace(risen, part=name))
    if found is None:
        counted_S = is_long(value_S).astype(np.float64)
        longer = _risen(counted_S, work_ms_S - usual_S, usual_S, climbs=False)
        found = longer and replace(longer, long_steps=True)
    return found


def _risen(
    series_S: Floats, cost_S: Floats, usual_S: Floats, climbs: bool = True
) -> Decline | None:
    """Where a series without the warm-up rises, if that costs LEAST of a usual step. `cost_S`, ms,
    and `usual_S` with the warm-up. `climbs`: it may rise slowly.
    """
    size, block_B = _blocks(series_S)
    first = rise_of_blocks(block_B)
    if first is None:
        return None
    since = climb(block_B) if climbs else None
    if since is None:
        found = _placed(series_S, series_S.size - (block_B.size - first) * size, size)
    else:
        found = _slow(series_S.size - (block_B.size - since) * size, series_S.size)
    before, after = (slice(low, high + 1) for low, high in (found.before, found.after))
    costs = (cost_S[after].mean() - cost_S[before].mean()) / usual_S[before].mean()
    return found if costs >= LEAST else None


def _ranked(value_S: Floats) -> Floats:
    """Places of the values among all of them, 0 to 1, equal ones in the middle of theirs: what is
    next to nothing before it grows varies more afterwards, and its places do not.
    """
    _, place_S, counts = np.unique(value_S, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middles[place_S] / value_S.size, dtype=np.float64)


def _lasts(rise: Rise) -> bool:
    """Whether it is a level, with another one before it, and not some long steps in a row."""
    num_before = rise.first - WARM_UP_STEPS
    return rise.last - rise.first + 1 >= LEVEL_STEPS and num_before >= FEWEST_COMPARED


def smallest_shown(work_ms_S: Floats) -> float:
    """Share by which steps must be longer, from the middle of them on, to be found in half of such
    runs; NaN where there are too few steps.
    """
    value_S = work_ms_S[WARM_UP_STEPS:]
    if value_S.size < FEWEST_STEPS:
        return math.nan
    return max(math.expm1(half_found(_blocks(_usual(value_S))[1])), LEAST)


def _usual(value_S: Floats) -> Floats:
    """Logarithms, with unusually long steps as long as those around them."""
    usual_S = np.where(is_long(value_S), np.nan, value_S)
    around_S = running_medians(usual_S)
    return np.asarray(np.log(np.where(np.isfinite(usual_S), usual_S, around_S)), dtype=np.float64)


def _blocks(value_S: Floats) -> tuple[int, Floats]:
    """Steps of a block and means of blocks, far ones brought closer to the others; what is over is
    left out at the begin, where jobs may still settle.
    """
    size = BLOCK * math.ceil(value_S.size / (BLOCK * _MOST_BLOCKS))
    num = value_S.size // size
    block_B = value_S[value_S.size - num * size :].reshape(num, size).mean(axis=1)
    middle = np.median(block_B)
    most = LONG_MADS * np.median(np.abs(block_B - middle))
    return size, np.clip(block_B, middle - most, middle + most) if most > 0 else block_B


def _placed(series_S: Floats, about: int, size: int) -> Decline:
    """At which step it changes, from the border of a block."""
    low, high = max(about - 2 * size, size), min(about + 2 * size, series_S.size - size)
    halfway = (series_S[:about].mean() + series_S[about:].mean()) / 2
    sums = np.cumsum(series_S[low:high] - halfway)
    first = low + int(np.argmin(np.concatenate(([0.0], sums))))
    return _from(0, first - 1, first, series_S.size - 1, first)


def _slow(first: int, num_steps: int) -> Decline:
    """Of what climbs from some step on the last third."""
    after = num_steps - (num_steps - first) // 3
    return _from(0, first - 1, after, num_steps - 1, first, slowly=True)


def _from(low: int, high: int, begin: int, end: int, first: int, slowly: bool = False) -> Decline:
    """With indices of all steps, those of the warm-up included."""
    low, high, begin, end, first = (WARM_UP_STEPS + at for at in (low, high, begin, end, first))
    return Decline((low, high), (begin, end), first, slowly)

"""Since when steps are longer than before, whatever the reason: by at least 5 % for 20 steps or
more, or by 25 % for three in a row.

Long steps of many jobs come and go (every second one, every tenth). So levels are compared by the
means of blocks of steps, of the longest blocks first, in which such patterns average out; where the
level changes within a block is then looked for among its steps.

Shape suffixes: S steps, B blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.statistics.episodes import Episode, episodes, greatest_sum
from diagnosis.statistics.peers import NOISE_MADS, level_before
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.step_noise import step_noise

LEAST_RISE, FEWEST_STEPS = 0.05, 20
SHORT_RISE, FEWEST_SHORT = 0.25, 3
SURE_RISE = 0.15
"""Longer by so much for FEWEST_STEPS or more: no pattern of long and short steps does that."""
CLEAR, CLEAR_FOR_LONG = 5.0, 3.5
"""Standard deviations of what as many steps swing by themselves. A job has hundreds of stretches of
few steps, and of many steps some ten; their spread is known of few blocks."""
WARM_UP_STEPS = 3
"""The first steps are longest in any job."""

_FEWEST_BEFORE, _KNOWN_BEFORE = 5, 7
"""Steps that show what was usual; of fewer than seven only what is far longer is sure."""

_BLOCKS = (20, 5, 1)
_FEWEST_BLOCKS = 8
_AROUND = 51
"""Steps whose median is the usual one of a few long steps: they do not move it."""


@dataclass(frozen=True)
class Rise:
    """Columns of the steps that are longer, and means of the steps before and meanwhile, ms."""

    first: int
    last: int
    before_ms: float
    now_ms: float

    @property
    def excess(self) -> float:
        """By what share of the steps before they are longer."""
        return self.now_ms / self.before_ms - 1


def rises(step_ms_S: Floats) -> list[Rise]:
    """Where steps are longer than before or around, in order of time; steps of NaN are unknown."""
    known = np.flatnonzero(np.isfinite(step_ms_S))
    known = known[known >= WARM_UP_STEPS]
    value_S = step_ms_S[known]
    lasting = [part for rise in _all(value_S) for part in _main_parts(value_S, rise)]
    begun, found = fewest_before(value_S.size), list[Rise]()
    for rise in sorted(lasting, key=lambda rise: rise.first):
        others_S = without(value_S, found, rise)
        if rise.first >= begun and takes_longer(others_S, rise.first, rise.last):
            found.append(rise)
    return [replace(r, first=int(known[r.first]), last=int(known[r.last])) for r in found]


def without(step_ms_S: Floats, rises: Sequence[Rise], span: Rise | Episode) -> Floats:
    """The steps, NaN in lasting rises that do not meet this span: they are not what is usual."""
    others_S = step_ms_S.copy()
    for rise in rises:
        if rise.last - rise.first + 1 >= FEWEST_STEPS and not _meet(rise, span):
            others_S[rise.first : rise.last + 1] = np.nan
    return others_S


def fewest_before(num_steps: int) -> int:
    """How many steps have to come before a rise: in fewer a job may still warm up."""
    return max(_FEWEST_BEFORE, min(FEWEST_STEPS, num_steps // 7))


def longer_by(step_ms_S: Floats, first: int, last: int) -> float:
    """By what share these steps take longer than all before them, means without the longest and
    shortest tenth; NaN where none came before.
    """
    before_S, inside_S = step_ms_S[:first], step_ms_S[first : last + 1]
    before_S, inside_S = before_S[np.isfinite(before_S)], inside_S[np.isfinite(inside_S)]
    if not before_S.size or not inside_S.size:
        return float("nan")
    return trimmed_mean(inside_S) / trimmed_mean(before_S) - 1


def trimmed_mean(value_S: Floats) -> float:
    """Mean of what is known, without the greatest and smallest tenth; NaN of nothing."""
    known_S = value_S[np.isfinite(value_S)]
    return float(_trimmed(known_S[None])[0]) if known_S.size else float("nan")


def most_longer_by(step_ms_S: Floats, first: int, last: int) -> float:
    """By what share half of these steps or more take longer than half of those before them; NaN
    where none came before.
    """
    before_S, inside_S = step_ms_S[:first], step_ms_S[first : last + 1]
    before_S, inside_S = before_S[np.isfinite(before_S)], inside_S[np.isfinite(inside_S)]
    if not before_S.size or not inside_S.size:
        return float("nan")
    return float(np.median(inside_S) / np.median(before_S)) - 1


def is_sure(excess: float, num_steps: int) -> bool:
    """Whether so many steps that take this share longer are so by no pattern."""
    return excess >= SURE_RISE and num_steps >= FEWEST_STEPS


def takes_longer(step_ms_S: Floats, first: int, last: int) -> bool:
    """Whether these steps take LEAST_RISE longer than all before them, and not by chance: most of
    them by twice that, few by SHORT_RISE, or by more than steps of this job swing by themselves.
    False where none came before.
    """
    longer, most = (by(step_ms_S, first, last) for by in (longer_by, most_longer_by))
    if not longer >= LEAST_RISE:
        return False
    few = last - first + 1 < FEWEST_STEPS
    is_short = few or first < _KNOWN_BEFORE
    if min(longer, most) >= (SHORT_RISE if is_short else 2 * LEAST_RISE):
        return True
    beyond = beyond_swings(step_ms_S, first, last)
    return bool(most >= LEAST_RISE and beyond >= CLEAR) if few else beyond >= CLEAR_FOR_LONG


def is_longer_by(step_ms_S: Floats, episode: Episode, share: float) -> bool:
    """Whether the steps of an episode take longer than those before it by this share or more; the
    warm-up does not count.
    """
    first, last = episode.first - WARM_UP_STEPS, episode.last - WARM_UP_STEPS
    if first <= 0:
        return False
    known_S = step_ms_S[WARM_UP_STEPS:]
    return longer_by(known_S, first, last) >= share


def beyond_swings(step_ms_S: Floats, first: int, last: int) -> float:
    """How many standard deviations of means over as many steps these take longer than all before
    them; NaN where too few came before.

    The steps before, meanwhile and after have a level each, around which blocks of at most as many
    steps vary by what the job does by itself.
    """
    sides = [step_ms_S[:first], step_ms_S[first : last + 1], step_ms_S[last + 1 :]]
    before_S, inside_S, after_S = (side_S[np.isfinite(side_S)] for side_S in sides)
    if before_S.size < FEWEST_SHORT or not inside_S.size:
        return float("nan")
    num_known = before_S.size + inside_S.size + after_S.size
    width = max(min(inside_S.size, before_S.size, num_known // _SWING_BLOCKS), 1)
    swing_B = np.concatenate([_swings(s, width) for s in (before_S, inside_S, after_S)])
    spread = float(np.quantile(swing_B, _WITHIN_SIGMA))
    spread *= np.sqrt(width / inside_S.size + width / before_S.size)
    longer_ms = longer_by(step_ms_S, first, last) * float(_trimmed(before_S[None])[0])
    return float(longer_ms / spread) if spread > 0 else float("inf")


_SWING_BLOCKS = 16
"""Enough to know a spread by, and as long as can be: swings last for some steps."""
_WITHIN_SIGMA = 0.683
"""Share of Gaussian values within a standard deviation of their mean."""


def longer_than_between(step_ms_S: Floats, at: Ints) -> bool:
    """Whether these steps take longer than those between them, by more than these vary; True where
    too few lie between to tell, less than one for four of them.
    """
    other_S = np.delete(step_ms_S[at[0] : at[-1] + 1], at - at[0])
    other_S = other_S[np.isfinite(other_S)]
    if other_S.size < max(at.size / 4, FEWEST_SHORT):
        return True
    spread = float(np.quantile(np.abs(other_S - np.median(other_S)), _WITHIN_SIGMA))
    spread *= np.sqrt(1 / at.size + 1 / other_S.size)
    longer_ms = float(np.nanmean(step_ms_S[at]) - other_S.mean())
    return longer_ms > 0 and longer_ms >= CLEAR * spread


def _swings(value_S: Floats, width: int) -> Floats:
    """How far means of blocks of so many values are from their median; empty of a single block."""
    num = value_S.size // width
    if num < 2:
        return np.empty(0)
    mean_B: Floats = value_S[: num * width].reshape(num, width).mean(axis=1)
    swing_B: Floats = np.abs(mean_B - np.median(mean_B)) * np.sqrt(num / (num - 1))
    return swing_B


def _all(value_S: Floats) -> list[Rise]:
    """Of the longest blocks first, what meets none of those; of a rise that shorter blocks show to
    be several far longer ones, these.
    """
    found: list[Rise] = []
    for width in _BLOCKS:
        if value_S.size >= width * _FEWEST_BLOCKS:
            of_width = _lasting(value_S, width)
            found = [part for rise in found for part in _several(rise, of_width)]
            found += [rise for rise in of_width if not _meets_any(rise, found)]
    return found + [rise for rise in _short(value_S) if not _meets_any(rise, found)]


def _several(whole: Rise, narrow: Sequence[Rise]) -> Sequence[Rise]:
    """Those within it if they are two or more that are far longer, else the whole."""
    inside = [rise for rise in narrow if whole.first <= rise.first and rise.last <= whole.last]
    far = all(rise.excess >= SHORT_RISE for rise in inside)
    return inside if len(inside) > 1 and far else [whole]


def _main_parts(value_S: Floats, whole: Rise) -> list[Rise]:
    """What is longer within a rise by SHORT_RISE, where that costs more than all its other steps,
    else the rise.
    """
    inside_S = value_S[whole.first : whole.last + 1]
    parts = [part for part in _all(inside_S) if part.excess >= SHORT_RISE]
    is_part_S = np.zeros(inside_S.size, dtype=np.bool_)
    for part in parts:
        is_part_S[part.first : part.last + 1] = True
    longer_S = inside_S - whole.before_ms
    costs = [_trimmed_sum(longer_S[of]) for of in (is_part_S, ~is_part_S)]
    if costs[0] <= costs[1]:
        return [whole]
    shift = whole.first
    return [replace(p, first=p.first + shift, last=p.last + shift) for p in parts]


def _lasting(value_S: Floats, width: int) -> list[Rise]:
    """Of episodes of blocks those that are longer by LEAST_RISE for FEWEST_STEPS."""
    num = value_S.size // width
    block_B = _trimmed(value_S[: num * width].reshape(num, width))
    before_ms = min(level_before(block_B), float(np.median(block_B)))
    if not np.isfinite(before_ms):
        return []
    excess_B = block_B / before_ms - 1
    border = max(LEAST_RISE / 2, step_noise(excess_B))
    blocks = episodes(np.repeat(excess_B, _VOTES), border)
    risen = [_ends(value_S, e, width, before_ms) for e in blocks]
    return [
        rise
        for rise in _joined(value_S, [rise for rise in risen if rise is not None])
        if rise.excess >= LEAST_RISE and rise.last - rise.first + 1 >= FEWEST_STEPS
    ]


def _trimmed(value_BS: Floats) -> Floats:
    """Means of rows without their greatest and smallest tenth: single long steps are no level."""
    cut = -(-value_BS.shape[1] // 10) if value_BS.shape[1] > 2 else 0
    sorted_BS = np.sort(value_BS, axis=1)
    means: Floats = sorted_BS[:, cut : value_BS.shape[1] - cut].mean(axis=1)
    return means


def _trimmed_sum(value_S: Floats) -> float:
    return value_S.size * float(_trimmed(value_S[None])[0]) if value_S.size else 0.0


def _joined(value_S: Floats, apart: list[Rise]) -> list[Rise]:
    """Rises that follow each other as one where steps are longer in between, too: of two that are
    far longer, the first for FEWEST_STEPS, by half as much as in the lesser one.
    """
    joined: list[Rise] = []
    for rise in apart:
        if joined:
            first, before_ms = joined[-1].first, joined[-1].before_ms
            between_S = value_S[joined[-1].last + 1 : rise.first]
            lesser = min(joined[-1].excess, rise.excess)
            lasted = joined[-1].last - first + 1 >= FEWEST_STEPS
            least = lesser / 2 if lasted and lesser >= SHORT_RISE else LEAST_RISE
            if not between_S.size or between_S.mean() >= (1 + least) * before_ms:
                now_ms = float(_trimmed(value_S[None, first : rise.last + 1])[0])
                joined[-1] = Rise(first, max(joined[-1].last, rise.last), before_ms, now_ms)
                continue
        joined.append(rise)
    return joined


_VOTES = 2
"""Two blocks are enough where their means are known as well as these: each votes twice."""


def _ends(value_S: Floats, blocks: Episode, width: int, before_ms: float) -> Rise | None:
    """The steps of an episode of blocks, from the first that is longer to the last."""
    low = max(blocks.first // _VOTES * width - width, 0)
    high = min((blocks.last // _VOTES + 2) * width, value_S.size)
    halfway = before_ms * (1 + max(blocks.excess, LEAST_RISE) / 2)
    first, last, score = greatest_sum(np.clip(value_S[low:high] / halfway - 1, -1.0, 1.0))
    if score <= 0:
        return None
    first, last = low + first, low + last
    return Rise(first, last, before_ms, float(_trimmed(value_S[None, first : last + 1])[0]))


def _short(value_S: Floats) -> list[Rise]:
    """Three steps or more in a row, each far longer than the usual one, and beyond all noise."""
    if value_S.size < 2 * _FEWEST_BLOCKS:
        return []
    usual_S = running_medians(value_S, _AROUND)
    half = min(_AROUND, value_S.size) // 2
    usual_S[-half:] = usual_S[-half - 1]  # of fewer steps at the end, long ones may be most
    excess_S = value_S / usual_S - 1
    noise = 2 * NOISE_MADS * float(np.median(np.abs(excess_S - np.median(excess_S))))
    is_long = np.concatenate(([0], excess_S >= max(SHORT_RISE, noise), [0])).astype(np.int8)
    runs = np.flatnonzero(np.diff(is_long)).reshape(-1, 2).tolist()
    return [
        Rise(first, end - 1, float(usual_S[first]), float(value_S[first:end].mean()))
        for first, end in runs
        if end - first >= FEWEST_SHORT
    ]


def _meets_any(rise: Rise, others: list[Rise]) -> bool:
    return any(_meet(rise, other) for other in others)


def _meet(rise: Rise, span: Rise | Episode) -> bool:
    return rise.first <= span.last and span.first <= rise.last

"""Since when steps are longer than before, whatever the reason: by at least 5 % for 20 steps or
more, or by 25 % for three in a row.

Long steps of many jobs come and go (every second one, every tenth). So levels are compared by the
means of blocks of steps, of the longest blocks first, in which such patterns average out; where the
level changes within a block is then looked for among its steps.

Shape suffixes: S steps, B blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.statistics.episodes import Episode, episodes, greatest_sum
from diagnosis.statistics.peers import NOISE_MADS, level_before
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.running_median import running_medians

LEAST_RISE, FEWEST_STEPS = 0.05, 20
SHORT_RISE, FEWEST_SHORT = 0.25, 3
CLEAR = 9.0
"""Median absolute deviations of means before: six standard deviations."""
WARM_UP_STEPS = 3
"""The first steps are longest in any job."""

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
    lasting: list[Rise] = []
    for width in _BLOCKS:
        if value_S.size >= width * _FEWEST_BLOCKS:
            lasting += [r for r in _lasting(value_S, width) if not _meets_any(r, lasting)]
    lasting += [rise for rise in _short(value_S) if not _meets_any(rise, lasting)]
    begun = min(FEWEST_STEPS, value_S.size // 5)  # before that a job may still warm up
    lasting = [r for r in lasting if r.first >= begun and takes_longer(value_S, r.first, r.last)]
    return [
        Rise(int(known[rise.first]), int(known[rise.last]), rise.before_ms, rise.now_ms)
        for rise in sorted(lasting, key=lambda rise: rise.first)
    ]


def longer_by(step_ms_S: Floats, first: int, last: int) -> float:
    """By what share these steps take longer than all before them, means without the longest and
    shortest tenth; NaN where none came before.
    """
    before_S, inside_S = step_ms_S[:first], step_ms_S[first : last + 1]
    before_S, inside_S = before_S[np.isfinite(before_S)], inside_S[np.isfinite(inside_S)]
    if not before_S.size or not inside_S.size:
        return float("nan")
    return float(_trimmed(inside_S[None])[0] / _trimmed(before_S[None])[0]) - 1


def takes_longer(step_ms_S: Floats, first: int, last: int) -> bool:
    """Whether these steps take LEAST_RISE longer than all before them; where they are fewer than
    FEWEST_STEPS, SHORT_RISE or CLEAR times as much as as many steps vary by. False where none came
    before.
    """
    longer, num_steps = longer_by(step_ms_S, first, last), last - first + 1
    if num_steps >= FEWEST_STEPS or not LEAST_RISE <= longer < SHORT_RISE:
        return longer >= LEAST_RISE
    before_S = step_ms_S[:first][np.isfinite(step_ms_S[:first])]
    width = max(min(num_steps, before_S.size // 3), 1)
    means_B = before_S[: before_S.size // width * width].reshape(-1, width).mean(axis=1)
    varies = float(np.median(np.abs(means_B - np.median(means_B))) / np.median(means_B))
    return longer >= CLEAR * varies


def _lasting(value_S: Floats, width: int) -> list[Rise]:
    """Of episodes of blocks those that are longer by LEAST_RISE for FEWEST_STEPS."""
    num = value_S.size // width
    block_B = _trimmed(value_S[: num * width].reshape(num, width))
    before_ms = min(level_before(block_B), float(np.median(block_B)))
    if not np.isfinite(before_ms):
        return []
    excess_B = block_B / before_ms - 1
    noise = NOISE_MADS * float(np.median(np.abs(np.diff(excess_B)))) / np.sqrt(2)
    blocks = episodes(np.repeat(excess_B, _VOTES), max(LEAST_RISE / 2, noise))
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


def _joined(value_S: Floats, apart: list[Rise]) -> list[Rise]:
    """Rises that follow each other as one where steps are longer in between, too."""
    joined: list[Rise] = []
    for rise in apart:
        if joined:
            first, before_ms = joined[-1].first, joined[-1].before_ms
            between_S = value_S[joined[-1].last + 1 : rise.first]
            if not between_S.size or between_S.mean() >= (1 + LEAST_RISE) * before_ms:
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
    return any(rise.first <= other.last and other.first <= rise.last for other in others)

"""Stretches of steps in which routers load experts unevenly, beyond what a fair router shows.

Routers settle in the first steps of a training, uneven at first: what begins there and falls is no
fault. Suffixes of shapes: S steps, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diagnosis.experts.fair_router import max_violation_noise, p01_least_load
from diagnosis.experts.load import LayerLoad, ep_rank_loads, load_entropy, ratio
from diagnosis.statistics.sampled_series import Stretch

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CONSECUTIVE = 20
"""Steps in a row: a batch of one topic is over by then."""

HOT = 1.0
"""An expert is hot where it has this much more than the mean, and the noise of a fair router: twice
the mean. Training with an auxiliary loss shows .72 for the fullest expert of a layer, without loss
.04 (2408.15664, 1B)."""

_HOT_OF_POSSIBLE = 0.6
"""Or this part of what is possible, where each token goes to so many of the experts that none can
have twice the mean."""

DEAD, DEAD_STEPS = 0.05, 100
"""An expert is dead that had less than this part of the mean over so many steps."""

_DEAD_CLEAR = 3.0
"""A fair router must stay above so many times that: else there are too few tokens to judge."""

COLLAPSED = 0.5
"""A router has collapsed where the entropy of the loads is below this part of ln E."""

_COLLAPSED_OF_POSSIBLE = 0.25
"""Or this part of the way from the least possible (K experts have all tokens) to the greatest."""

FULL = 1.2
"""An EP rank is full with this much more tokens than the mean of the EP ranks, and noise."""

SETTLING_STEPS, LONGEST_SETTLING = 20, 200
"""Routers that are uneven since one of these steps, and for fewer steps, may settle."""

_FALLS = 0.95
"""What settles has fallen to this part, from the first third of its steps to the last."""


@dataclass(frozen=True)
class Uneven:
    """One expert, or a whole layer (expert -1), over a stretch of steps. `level`: median."""

    load: LayerLoad
    expert: int
    stretch: Stretch
    level: float

    @property
    def where(self) -> str:
        """Its layer in words."""
        return self.load.where

    @property
    def first_step(self) -> int:
        """First step of it."""
        return int(self.load.step_S[self.stretch.first])

    @property
    def last_step(self) -> int:
        """Last step of it."""
        return int(self.load.step_S[self.stretch.last])

    @property
    def is_ongoing(self) -> bool:
        """Whether it had not ended with the newest steps."""
        return not self.stretch.is_over(self.load.step_S.size)


def hot_level(load: LayerLoad) -> float:
    """Load / mean - 1 from which on an expert is hot, without the noise of the step."""
    return min(HOT, _HOT_OF_POSSIBLE * (load.greatest_ratio - 1))


def hot_experts(load: LayerLoad) -> tuple[list[Uneven], list[Uneven]]:
    """Experts that were hot for CONSECUTIVE steps, without those of a collapsed router; and those
    that were while routers settled.
    """
    if load.greatest_ratio <= 1:
        return [], []
    violation_SE = ratio(load.tokens_SE) - 1
    level_S = hot_level(load) + max_violation_noise(load.experts, load.choices_S)
    is_hot_SE = violation_SE > level_S[:, None]
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for expert in np.flatnonzero(is_hot_SE.sum(axis=0) >= CONSECUTIVE).tolist():
        value_S = violation_SE[:, expert]
        for stretch in joined(runs_of(is_hot_SE[:, expert], CONSECUTIVE)):
            level = float(np.nanmedian(value_S[stretch.first : stretch.last + 1]))
            uneven = Uneven(load, expert, stretch, level)
            (settled if settles(load, value_S, stretch) else found).append(uneven)
    return apart_from(found, [one for part in collapses(load) for one in part]), settled


def collapsed_level(load: LayerLoad) -> float:
    """Entropy / ln E below which a router has collapsed; 0 where that cannot be."""
    if load.experts <= load.top_k:
        return 0.0
    least = float(np.log(load.top_k) / np.log(load.experts))
    return max(COLLAPSED, least + _COLLAPSED_OF_POSSIBLE * (1 - least))


def collapses(load: LayerLoad) -> tuple[list[Uneven], list[Uneven]]:
    """Stretches in which the layer's router had collapsed; and those in which routers settled."""
    entropy_S = load_entropy(load.tokens_SE)
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for stretch in joined(runs_of(entropy_S < collapsed_level(load), CONSECUTIVE)):
        level = float(np.nanmedian(entropy_S[stretch.first : stretch.last + 1]))
        uneven = Uneven(load, -1, stretch, level)
        (settled if settles(load, 1 - entropy_S, stretch) else found).append(uneven)
    return found, settled


def are_enough_tokens(load: LayerLoad) -> bool:
    """Whether a fair router gives every expert so many tokens that a dead one stands out."""
    choices = float(load.choices_S[-DEAD_STEPS:].sum())
    return p01_least_load(load.experts, 1, choices) >= _DEAD_CLEAR * DEAD


def dead_experts(load: LayerLoad) -> list[Uneven]:
    """Experts that were dead for DEAD_STEPS steps, each since its load fell below DEAD; once for
    each time. `level`: load / mean of its steps.
    """
    if load.step_S.size < DEAD_STEPS or load.experts <= load.top_k or not are_enough_tokens(load):
        return []
    sums_SE = np.cumsum(np.vstack([np.zeros(load.experts), load.tokens_SE]), axis=0)
    window_WE = sums_SE[DEAD_STEPS:] - sums_SE[:-DEAD_STEPS]
    is_dead_WE = ratio(window_WE) < DEAD
    load_SE = np.nan_to_num(ratio(load.tokens_SE))
    found = []
    for expert in np.flatnonzero(is_dead_WE.any(axis=0)).tolist():
        for windows in runs_of(is_dead_WE[:, expert], 1):
            stretch = _below_dead(load_SE[:, expert], windows)
            if stretch.last - stretch.first + 1 < DEAD_STEPS:
                continue
            tokens_E = load.tokens_SE[stretch.first : stretch.last + 1].sum(axis=0)
            level = float(ratio(tokens_E[None])[0, expert])
            found.append(Uneven(load, expert, stretch, level))
    return found


def _below_dead(load_S: Floats, windows: Stretch) -> Stretch:
    """The steps of dead windows, in a row, without those at both ends in which the expert still
    had more than DEAD, or had it again: a window may have a few of these.
    """
    end = windows.last + DEAD_STEPS
    first_window_S = load_S[windows.first : windows.first + DEAD_STEPS]
    last_window_S = load_S[windows.last : end]
    return Stretch(
        windows.first + _num_above(first_window_S), end - 1 - _num_above(last_window_S[::-1])
    )


def _num_above(load_S: Floats) -> int:
    """After how many steps loads change from above DEAD to below it, all in all."""
    return int(np.argmax(np.concatenate(([0.0], np.cumsum(load_S - DEAD)))))


def full_ep_ranks(
    load: LayerLoad, parts: list[tuple[int, int]]
) -> tuple[list[Uneven], list[Uneven]]:
    """EP ranks that had FULL times the mean tokens for CONSECUTIVE steps; and those that only had
    while routers settled. `parts`: first expert and number of experts of each EP rank.

    `expert`: its fullest; `level`: tokens / mean of the EP ranks.
    """
    if len(parts) < 2:
        return [], []
    ratio_SP = ratio(ep_rank_loads(load.tokens_SE, parts))
    least_S = FULL + max_violation_noise(len(parts), load.choices_S)
    found: list[Uneven] = []
    settled: list[Uneven] = []
    for part, (first, num) in enumerate(parts):
        for stretch in joined(runs_of(ratio_SP[:, part] > least_S, CONSECUTIVE)):
            within_SE = load.tokens_SE[stretch.first : stretch.last + 1, first : first + num]
            expert = first + int(within_SE.sum(axis=0).argmax())
            level = float(np.nanmedian(ratio_SP[stretch.first : stretch.last + 1, part]))
            is_settling = settles(load, ratio_SP[:, part] - 1, stretch)
            (settled if is_settling else found).append(Uneven(load, expert, stretch, level))
    return found, settled


def apart_from(found: list[Uneven], others: list[Uneven]) -> list[Uneven]:
    """Those that share no step with any of the others, which are of the same layer."""
    return [
        one
        for one in found
        if not any(
            one.stretch.first <= other.stretch.last and other.stretch.first <= one.stretch.last
            for other in others
        )
    ]


def runs_of(is_off_S: Bools, shortest: int) -> list[Stretch]:
    """Stretches of at least so many steps in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_off_S, [0])).astype(np.int8)))
    pairs = edges.reshape(-1, 2).tolist()
    return [Stretch(first, end - 1) for first, end in pairs if end - first >= shortest]


def joined(stretches: list[Stretch]) -> list[Stretch]:
    """Stretches with fewer than CONSECUTIVE steps between them are one."""
    together: list[Stretch] = []
    for stretch in stretches:
        if together and stretch.first - together[-1].last <= CONSECUTIVE:
            together[-1] = Stretch(together[-1].first, stretch.last)
        else:
            together.append(stretch)
    return together


def settles(load: LayerLoad, value_S: Floats, stretch: Stretch) -> bool:
    """Whether it began with the training and falls: routers are still learning to share."""
    within_S = value_S[stretch.first : stretch.last + 1]
    if load.step_S[stretch.first] >= SETTLING_STEPS or within_S.size > LONGEST_SETTLING:
        return False
    third = within_S.size // 3
    return bool(np.nanmedian(within_S[-third:]) < _FALLS * np.nanmedian(within_S[:third]))

"""How a healthy job varies: lasting noise, periodic work, ranks that stall for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Random = np.random.Generator

PHASES = ("data", "compute", "rest")
"""Where a rank spends time by itself; rest: between the operations, in no timer."""

_UNLIKE = 2.0
"""Standard deviations that a healthy device is off at most."""


@dataclass(frozen=True)
class Habits:
    """Shares are of the step, unless noted. Each `*_phase` is one of PHASES.

    Noise: standard deviations of the logarithm of compute, in each step (`noise`), the same on all
    ranks (`common`, correlated over `memory` steps), and constant (`device`). `swing`: standard
    deviation of what ranks lose and regain over `memory` steps. `spikes`: probability that a step
    of a rank is longer, by `spike` on average. `quirk`: what rank 0 always does in addition.
    `roles`: compute of groups of ranks that do different work. `warm_up`, `settles`: excess of the
    first step, and after how many steps it has decayed to 1/e. `trend`: change of compute over the
    run. `every`, `unnamed`: all ranks do more every so many steps. `slow`: (first step, last step,
    share) in which all ranks are slower. `stalls`: (first step, last step, rank, share) in which a
    rank stalls in every second step.
    """

    noise: float = 0.0
    swing: float = 0.0
    memory: float = 1.0
    common: float = 0.0
    device: float = 0.0
    data_noise: float = 0.0
    spikes: float = 0.0
    spike: float = 0.0
    spike_phase: str = "data"
    swing_phase: str = "compute"
    quirk: float = 0.0
    quirk_phase: str = "rest"
    roles: tuple[float, ...] = (1.0,)
    warm_up: float = 0.0
    settles: float = 1.0
    trend: float = 0.0
    every: int = 0
    unnamed: float = 0.0
    unnamed_phase: str = "rest"
    slow: tuple[tuple[int, int, float], ...] = ()
    stalls: tuple[tuple[int, int, int, float], ...] = ()
    stall_phase: str = "data"


def compute_factors(habits: Habits, num_steps: int, num_ranks: int, random: Random) -> Float:
    """(S, R): how many times as long the compute of each step takes."""
    device_R = habits.device * random.standard_normal(num_ranks).clip(-_UNLIKE, _UNLIKE)
    role_R = np.array(habits.roles)[np.arange(num_ranks) * len(habits.roles) // num_ranks]
    common_S1 = habits.common * correlated(random, (num_steps, 1), habits.memory)
    white_SR = habits.noise * random.standard_normal((num_steps, num_ranks))
    step_S1 = np.arange(num_steps)[:, None]
    over_time_S1 = (
        1
        + habits.warm_up * np.exp(-step_S1 / habits.settles)
        + habits.trend * step_S1 / max(num_steps - 1, 1)
    )
    factors: Float = role_R * np.exp(device_R + common_S1 + white_SR) * over_time_S1
    return factors


def added_times(habits: Habits, num_steps: int, num_ranks: int, random: Random) -> dict[str, Float]:
    """(S, R) by phase: what the habits add to each step, as shares of it; swings may shorten it."""
    shape = (num_steps, num_ranks)
    added = {name: np.zeros(shape) for name in PHASES}
    if habits.swing:
        level_SR = correlated(random, shape, habits.memory)
        swing_SR = habits.swing * (level_SR + 0.5 * random.standard_normal(shape))
        added[habits.swing_phase] += np.maximum(swing_SR, 0.2 * swing_SR)
    hit_SR = random.random(shape) < habits.spikes
    added[habits.spike_phase] += hit_SR * random.exponential(habits.spike or 1e-9, shape)
    if habits.every:
        hit = np.arange(habits.every - 1, num_steps, habits.every)
        like = 1 + 0.02 * random.standard_normal((hit.size, num_ranks))
        added[habits.unnamed_phase][hit] += habits.unnamed * like
    added[habits.quirk_phase][:, 0] += habits.quirk
    for first, last, rank, share in habits.stalls:
        added[habits.stall_phase][first : last + 1 : 2, rank] += share
    for first, last, share in habits.slow:
        added["compute"][first : last + 1] += share
    return added


def correlated(random: Random, shape: tuple[int, int], memory: float) -> Float:
    """AR(1) noise along the first axis, standard deviation 1; `memory`: steps to decay to 1/e."""
    keeps = math.exp(-1 / max(memory, 1e-3))
    drawn = random.standard_normal(shape)
    for step in range(1, shape[0]):
        drawn[step] = keeps * drawn[step - 1] + math.sqrt(1 - keeps**2) * drawn[step]
    return drawn

"""Noise of recorded healthy jobs, resampled in blocks of steps.

A recording is a .npz file with (S, R) arrays in ms: data, compute, comm, wait and step; nan where a
timer was not logged. Blocks of neighbouring steps are drawn at random and joined, the same ones for
all ranks, so that what lasts for some steps and what ranks have in common stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

TIMERS = ("data", "compute", "comm", "wait")
BLOCKS = (15, 60)
"""Least and most steps of a block."""

_WARM_UP = 5
"""First steps of a recording that are left out."""
_CALM = 0.05
"""Quantile of factors; the few below it are errors of clocks."""
_MOVES = 0.25
"""Spread over ranks of a timer / that of the timer that spreads most; less hides no waiting."""


@dataclass(frozen=True)
class Recording:
    """Times of a recorded healthy job, and its name."""

    name: str
    timers: dict[str, Float]
    step_SR: Float

    @cached_property
    def logged(self) -> tuple[str, ...]:
        """Timers that it has."""
        return tuple(name for name in TIMERS if np.isfinite(self.timers[name]).all())

    @cached_property
    def rest_SR(self) -> Float:
        """Parts of the steps in no timer."""
        rest: Float = self.step_SR - sum(self.timers[name] for name in self.logged)
        return rest

    @cached_property
    def hides(self) -> str:
        """Timer in which waiting lies; rest: in none.

        All ranks end a step together. Where a timer is a rank's own work, single ranks stand out by
        much of it; where waiting lies in it, those that all others wait for stand out by little.
        """
        shown = {**{name: self.timers[name] for name in self.logged}, "rest": self.rest_SR}
        apart = {
            name: times - np.median(times, axis=1, keepdims=True) for name, times in shown.items()
        }
        spread = {name: float(times.std()) for name, times in apart.items()}
        moves = [name for name in apart if spread[name] >= _MOVES * max(spread.values())]
        return min(moves, key=lambda name: float((apart[name] ** 3).mean()) / spread[name] ** 3)

    def blocks(self, num_steps: int, random: np.random.Generator) -> Int:
        """Numbers of recorded steps, joined blocks of them."""
        length = self.step_SR.shape[0]
        chosen: list[int] = []
        while len(chosen) < num_steps:
            size = int(min(random.integers(*BLOCKS), length))
            first = int(random.integers(length - size + 1))
            chosen += range(first, first + size)
        return np.array(chosen[:num_steps])

    @cached_property
    def factors_SR(self) -> Float:
        """Compute of each step / the rank's median."""
        factors: Float = self.timers["compute"] / np.median(self.timers["compute"], axis=0)
        return factors

    @cached_property
    def calm(self) -> float:
        """The factor of steps in which nothing is in the way: what takes longer is no more work."""
        return float(np.quantile(self.factors_SR, _CALM))

    def compute_factors(self, num_steps: int, num_ranks: int, random: np.random.Generator) -> Float:
        """(S, R): factors of drawn steps; ranks recorded together stay so."""
        recorded, found = self.factors_SR.shape[1], []
        for first in range(0, num_ranks, recorded):
            step_S = self.blocks(num_steps, random)
            rank_R = random.permutation(recorded)[: num_ranks - first]
            found.append(self.factors_SR[np.ix_(step_S, rank_R)])
        return np.hstack(found)


@lru_cache(maxsize=64)
def load_recording(path: str) -> Recording:
    """A recording without its first steps."""
    with np.load(path) as arrays:
        step_SR = arrays["step"][_WARM_UP:].astype(np.float64)
        missing = np.full_like(step_SR, np.nan)
        timers = {n: arrays[n][_WARM_UP:] if n in arrays else missing for n in TIMERS}
    return Recording(Path(path).stem, timers, step_SR)


def recordings_in(folder: str) -> list[str]:
    """Paths of all recordings in a folder, by name; raises ValueError where there is none."""
    found = [str(path) for path in sorted(Path(folder).glob("*.npz"))]
    if not found:
        raise ValueError(f"{folder} has no recorded noise (*.npz)")
    return found

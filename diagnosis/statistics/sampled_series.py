"""Statistics of a model over the steps that recorded them, the samples: one series for each place.

A statistic with a known bad level is judged by two rules: it lies beyond the level in CONSECUTIVE
samples in a row, and before that it lay on the good side by more than its own noise. What hovers
around a level has not crossed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import NotEnoughData, Verdict
from diagnosis.statistics.episodes import MIN_VOTES, OVER_AFTER_STEPS
from diagnosis.statistics.rank_tables import Bools, Floats, Ints

CONSECUTIVE = int(MIN_VOTES)
"""Samples in a row beyond a level: as many as steps make an episode."""

FEWEST_BEFORE = 8
"""Samples on the good side that show what was usual."""

BEYOND_NOISE = 6 * 1.4826
"""So many MAD from the usual: six sigma of Gaussian noise, none in 1e8 healthy samples."""


@dataclass(frozen=True)
class Series:
    """One statistic of K places in N samples. `keys`: the columns that name each place."""

    step_N: Ints
    keys: tuple[tuple[Any, ...], ...]
    value_KN: Floats  # NaN where it was not recorded, or is not finite

    def like(self, other: Series) -> Floats:
        """The values of this one at the places and steps of another; NaN where it has none."""
        row_of = {key: row for row, key in enumerate(self.keys)}
        at_N = {int(step): at for at, step in enumerate(self.step_N)}
        value_KN = np.full(other.value_KN.shape, np.nan)
        columns = [(to, at_N[int(s)]) for to, s in enumerate(other.step_N) if int(s) in at_N]
        to_N, from_N = (np.array([pair[side] for pair in columns], int) for side in (0, 1))
        for row, key in enumerate(other.keys):
            if key in row_of:
                value_KN[row, to_N] = self.value_KN[row_of[key], from_N]
        return value_KN

    def extent(self, stretches: Iterable[Stretch]) -> tuple[int, int, bool]:
        """First and last step of stretches together, and whether they go on."""
        every = list(stretches)
        whole = Stretch(
            min(stretch.first for stretch in every), max(stretch.last for stretch in every)
        )
        first, last = self.step_N[whole.first], self.step_N[whole.last]
        return int(first), int(last), not whole.is_over(self.step_N.size)


@dataclass(frozen=True)
class Stretch:
    """Samples beyond a level, indices both included."""

    first: int
    last: int

    def is_over(self, num_samples: int) -> bool:
        """Whether OVER_AFTER_STEPS samples without it have followed."""
        return num_samples - 1 - self.last >= OVER_AFTER_STEPS


def series_of(table: pa.Table, by: Sequence[str], value: str) -> Series:
    """Pivot one column of a question's answer that has a row per step and place (columns `by`)."""
    step_N, at_row = np.unique(table["step"].to_numpy().astype(np.int64), return_inverse=True)
    code = np.zeros(table.num_rows, np.int64)
    for name in by:
        words = pc.unique(table[name])
        code = code * len(words) + pc.index_in(table[name], words).to_numpy()
    _, first, place_row = np.unique(code, return_index=True, return_inverse=True)
    named = table.select(list(by)).take(pa.array(first)).to_pylist()
    value_KN = np.full((first.size, step_N.size), np.nan)
    value_row = table[value].cast(pa.float64()).to_numpy(zero_copy_only=False)
    value_KN[place_row, at_row] = np.where(np.isfinite(value_row), value_row, np.nan)
    return Series(step_N, tuple(tuple(row.values()) for row in named), value_KN)


def too_few(detector: str, series: Series, what: str) -> Verdict | None:
    """Verdict where fewer than CONSECUTIVE steps have statistics of `what`, else None."""
    num_samples = series.step_N.size
    if num_samples >= CONSECUTIVE:
        return None
    reason = f"{num_samples} steps with {what} statistics are too few: {CONSECUTIVE} are needed."
    return Verdict(detector, not_enough=(NotEnoughData(detector, reason),))


def lasting(is_off_N: Bools, known_N: Bools) -> list[Stretch]:
    """Stretches of at least CONSECUTIVE samples that are off; unknown samples are left out."""
    known = np.flatnonzero(known_N)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_off_N[known], [0])).astype(np.int8)))
    runs = [(a, b - 1) for a, b in edges.reshape(-1, 2).tolist() if b - a >= CONSECUTIVE]
    return [Stretch(int(known[first]), int(known[last])) for first, last in runs]


def rises_above(value_N: Floats, level: float) -> Stretch | None:
    """From where on values stay at or above a level that they were below before, beyond noise.

    Beyond that of one sample before, and that of their median since. What goes down and comes again
    is one stretch, from its first sample to its last.
    """
    known_N = np.isfinite(value_N)
    stretches = lasting(value_N >= level, known_N)
    for stretch in stretches:
        before = value_N[: stretch.first][known_N[: stretch.first]]
        if before.size < FEWEST_BEFORE:
            continue
        noise = noise_of(before)
        above = _certainly(value_N[stretch.first : stretch.last + 1], noise)
        if float(np.median(before)) + noise < level <= above:
            return Stretch(stretch.first, stretches[-1].last)
    return None


def begins_above(value_N: Floats, level: float) -> Stretch | None:
    """Where values are at or above a level, beyond noise, from the first known sample on: none
    before it shows what was usual.
    """
    known_N = np.isfinite(value_N)
    stretch = next(iter(lasting(value_N >= level, known_N)), None)
    if stretch is None or known_N[: stretch.first].any():
        return None
    since = value_N[stretch.first :]
    return stretch if _certainly(since, noise_of(since[np.isfinite(since)])) >= level else None


def _certainly(value_N: Floats, noise: float) -> float:
    """Above what the median of values is beyond noise."""
    known = value_N[np.isfinite(value_N)]
    return float(np.median(known)) - noise / math.sqrt(known.size)


def noise_of(values: npt.NDArray[np.float64]) -> float:
    """How far noise alone takes a value: by how much neighbours differ, so no trend counts."""
    steps = np.diff(values)
    return BEYOND_NOISE / math.sqrt(2) * float(np.median(np.abs(steps - np.median(steps))))


def severity_of(is_ongoing: bool, is_urgent: bool) -> str:
    """Severity of a finding."""
    if not is_ongoing:
        return "past"
    return "urgent" if is_urgent else "warning"


_LAYER = re.compile(r"(?:^|\.)[0-9]+(?:\.|$)")


def seen(
    attempt: int, tensor: str, statistic: str, layer: int, name: str, head: int | None = None
) -> tuple[tuple[str, Any], ...]:
    """View of a place on the page Model: a module's tensor, or of a head (`tensor` heads)."""
    part = name if layer < 0 else _LAYER.split(name, maxsplit=1)[-1]
    end = part if head is None else f"h{head}"
    row = f"{layer}.{end}" if end else str(layer)
    shown = (("view", "health"), ("tensor", tensor), ("stat", statistic), ("row", row))
    return (("page", "model"), ("attempt", attempt), ("model", shown))


MOST_NAMED = 4


def named(places: Iterable[str]) -> str:
    """The first places, and how many more there are."""
    every = list(dict.fromkeys(places))
    more = len(every) - MOST_NAMED
    text = ", ".join(every[:MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text

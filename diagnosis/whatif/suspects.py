"""Ranks outside their peers' noise, and what a job would be without them.

Shape suffixes: see the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.operations import Floats, Ints

Fix = Callable[[Floats], None]
"""Makes own times (O, S, D), in place, what they would be without a cause."""

MADS = 3 * 1.4826


@dataclass(frozen=True)
class Suspect:
    """A cause before its cost; see causes.Cause."""

    kind: str
    stages: tuple[int, ...]
    ranks: tuple[int, ...]
    ratio: float
    text: str
    fix: Fix


def beyond(values: Floats, least: float) -> tuple[Floats, Ints]:
    """Of each value the ratio to the median of the others, and who is beyond their noise.

    Noise: 3 MAD of the ratios, at least `least`. Two values are compared with each other; where the
    others take no time the ratio is 1.
    """
    others = np.array([np.median(np.delete(values, i)) for i in range(len(values))])
    ratio = np.divide(values, others, out=np.ones(len(values)), where=others > 0)
    noise = MADS * np.median(np.abs(ratio - np.median(ratio))) if len(values) > 2 else 0.0
    return ratio, np.flatnonzero(ratio - 1 > max(least, float(noise)))


def medians(own_NSDT: Floats) -> Floats:
    """Over ops and steps, (D, T); NaN where there is nothing."""
    medians_DT = np.full(own_NSDT.shape[2:], np.nan)
    there_DT = np.isfinite(own_NSDT).any(axis=(0, 1))
    medians_DT[there_DT] = np.nanmedian(own_NSDT[:, :, there_DT], axis=(0, 1))
    return medians_DT


def shrunk(own_NST: Floats, ratio_T: Floats) -> Floats:
    """Factor by which ops of cells grow shorter when their members take as much less, (N, S)."""
    before_NS = np.nanmax(own_NST, axis=-1)
    after_NS = np.nanmax(own_NST / ratio_T, axis=-1)
    factor_NS: Floats = np.divide(
        after_NS, before_NS, out=np.ones(before_NS.shape), where=before_NS != 0
    )
    return factor_NS


def scaled(members: Sequence[int], dp: int | slice, factor: Floats) -> Fix:
    """A fix that multiplies times of some ops; `factor` (N, S), or (N, S, D) of all dp ranks."""

    def fix(own_OSD: Floats) -> None:
        own_OSD[list(members), :, dp] *= factor

    return fix


def named(ranks: Sequence[int]) -> str:
    """`rank 5`, `ranks 4, 5`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"

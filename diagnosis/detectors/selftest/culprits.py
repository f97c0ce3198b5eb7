"""Who is slow in one set of measurements: a host, a rank, or the link of two ranks.

Nearly all pairs of a host slow: the host. Of a rank: the rank, its device or its network card. One
pair: the link. Each is compared with the median of those that do not touch it, so that a slow host
of four cannot shift what is usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.selftest.measurements import Cell
from diagnosis.statistics.rank_tables import Floats

Bools = npt.NDArray[np.bool_]
What = Literal["host", "rank", "link"]

FEWEST = 3
"""Measurements to compare with. With fewer, one of them that differs could be any."""
LEAST_DEVICE, LEAST_TRANSFER = 1.1, 1.25
"""Times the usual: SuperBench takes 1.05 for a fault; two good devices differ by some per cent."""
BEYOND_NOISE = 5.0
"""And by this many robust standard deviations of the others (of logarithms)."""
NEARLY_ALL = 0.8
"""Of a host's or rank's pairs."""
MANY = 0.25
"""Share of single pairs beyond which nothing is known of any of them."""
MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Culprit:
    """`who`: host, (rank,) or (rank, peer). `index`: its slowest measurement in the cell.

    `ratio`: how many times as long as the others it takes, by the shortest repetition.
    """

    what: What
    who: str | tuple[int, ...]
    cell: Cell
    index: int
    ratio: float
    num_slow: int
    num_of: int


@dataclass(frozen=True)
class Judged:
    """Culprits of one cell; `num_unclear`: pairs that differ and are too many to be named."""

    culprits: tuple[Culprit, ...]
    num_unclear: int = 0


def judge(cell: Cell) -> Judged:
    """Name who is slow; hosts and ranks first, then single pairs or devices."""
    left_M = np.ones(len(cell.measured), np.bool_)
    named: list[Culprit] = []
    while (culprit := _worst_part(cell, left_M)) is not None:
        named.append(culprit)
        left_M &= ~_touching(cell, culprit)
    single = [one for index in np.flatnonzero(left_M) if (one := _single(cell, left_M, int(index)))]
    if len(single) > max(2.0, MANY * left_M.sum()):
        return Judged(tuple(named), len(single))
    return Judged((*named, *single))


def ratios(cell: Cell, own_M: Bools, others_M: Bools) -> tuple[Floats, Bools]:
    """How many times as long each of `own` takes as the median of `others`, by the shortest
    repetition, and whether it is slow by the median too and was slow again.
    """
    least = np.log(LEAST_DEVICE if cell.is_of_devices else LEAST_TRANSFER)
    slow = np.ones(int(own_M.sum()), np.bool_)
    beyond_M = {}
    for name, values_M in (("short", cell.short_M), ("median", cell.median_M)):
        log_O = np.log(values_M[others_M])
        usual = np.median(log_O)
        spread = MAD_TO_SD * np.median(np.abs(log_O - usual))
        beyond_M[name] = np.log(values_M[own_M]) - usual
        slow &= beyond_M[name] >= max(least, BEYOND_NOISE * spread)
        if name == "short":
            again_least = max(least, BEYOND_NOISE * spread / 2)
    again = _again(cell)[own_M]
    slow &= np.isnan(again) | (again >= again_least)
    return np.exp(beyond_M["short"]), slow


def _again(cell: Cell) -> Floats:
    """Logarithm of a recheck against that of the control: of those rechecked, the one that was
    fastest at first. NaN where there was none.
    """
    rechecked = np.flatnonzero(np.isfinite(cell.again_M))
    if rechecked.size < 2:
        return np.full(cell.again_M.size, np.nan)
    control = rechecked[np.argmin(cell.short_M[rechecked])]
    again: Floats = np.log(cell.again_M / cell.again_M[control])
    return again


def _worst_part(cell: Cell, left_M: Bools) -> Culprit | None:
    """The host or rank of which nearly all measurements are slow; hosts before their ranks."""
    found = []
    for what, who, touches_M in _parts(cell):
        own_M, others_M = touches_M & left_M, ~touches_M & left_M
        if own_M.sum() < (2 if cell.is_of_devices else FEWEST) or others_M.sum() < FEWEST:
            continue
        ratio, slow = ratios(cell, own_M, others_M)
        if slow.mean() >= NEARLY_ALL:
            worst = int(np.flatnonzero(own_M)[np.argmax(np.where(slow, ratio, 0))])
            middle = float(np.median(ratio))
            found.append(Culprit(what, who, cell, worst, middle, int(slow.sum()), int(own_M.sum())))
    return max(found, key=lambda one: (one.what == "host", one.ratio), default=None)


def _parts(cell: Cell) -> Iterator[tuple[What, str | tuple[int, ...], Bools]]:
    hosts = sorted({host for one in cell.measured for host in one.hosts})
    if len(hosts) > 1:
        for host in hosts:
            yield "host", host, np.array([host in one.hosts for one in cell.measured])
    if not cell.is_of_devices:
        for rank in sorted({rank for one in cell.measured for rank in one.ranks}):
            yield "rank", (rank,), np.array([rank in one.ranks for one in cell.measured])


def _touching(cell: Cell, culprit: Culprit) -> Bools:
    if culprit.what == "host":
        return np.array([culprit.who in one.hosts for one in cell.measured])
    return np.array([culprit.who[0] in one.ranks for one in cell.measured])


def _single(cell: Cell, left_M: Bools, index: int) -> Culprit | None:
    own_M = np.zeros_like(left_M)
    own_M[index] = True
    others_M = left_M & ~own_M
    if others_M.sum() < FEWEST:
        return None
    ratio, slow = ratios(cell, own_M, others_M)
    if not slow[0]:
        return None
    ranks = cell.measured[index].ranks
    what: What = "rank" if len(ranks) == 1 else "link"
    return Culprit(what, ranks, cell, index, float(ratio[0]), 1, 1)

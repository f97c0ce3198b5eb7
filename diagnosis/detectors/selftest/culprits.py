"""Who is slow in one set of measurements: a host, a rank, or the link of two ranks.

Nearly all pairs of a host slow: the host. Of a rank: the rank, its device or its network card. All
pairs of two hosts, or one pair: the link. Each is compared with the median of those that do not
touch it, so that a slow host of four cannot shift what is usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diagnosis.detectors.selftest.measurements import Cell
from diagnosis.statistics.rank_tables import Bools, Floats, Ints

What = Literal["host", "rank", "hosts", "link"]
Who = tuple[str, ...] | tuple[int, ...]

FEWEST = 3
"""Measurements to compare with. With fewer, one of them that differs could be any."""
LEAST_DEVICE, LEAST_TRANSFER, LEAST_LATENCY = 1.1, 1.25, 2.0
"""Times the usual: SuperBench takes 1.05 for a fault; two good devices differ by some per cent, and
small messages by more: where on its host a process runs decides how soon it wakes up."""
SMALL_BYTES = 1 << 20
"""Messages below this are dominated by latency."""
BEYOND_NOISE, FEW = 5.0, 350.0
"""And by this many robust standard deviations of the others (of logarithms), and FEW / n^2 more of
n measurements: few say little of their own spread. One of 8, 28 or 500 normal ones is beyond it in
less than 1 of 200 sets (simulated)."""
CONFIRMED = 0.75
"""Share of that which is enough of what was slow twice, the second time with all others idle."""
FASTER = 0.8
"""Share of the others that the spread is taken of, the fastest: two slow ones must not hide each
other."""
NEARLY_ALL = 0.8
"""Of a host's or rank's pairs."""
MANY = 0.15
"""Share of single pairs beyond which nothing is known of any of them."""
MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Culprit:
    """`who`: (host,), (rank,), two hosts of which all links are slow, or (rank, peer). `index`: its
    slowest measurement in the cell.

    `ratio`: how many times as long as the others it takes, by the shortest repetition.
    """

    what: What
    who: Who
    cell: Cell
    index: int
    ratio: float
    num_slow: int
    num_of: int


@dataclass(frozen=True)
class Judged:
    """Culprits of one cell. `num_unclear`: pairs or devices that differ and are too many to be
    named; `unconfirmed`: those that were not measured again.
    """

    culprits: tuple[Culprit, ...]
    num_unclear: int = 0
    unconfirmed: tuple[Culprit, ...] = ()


def judge(cell: Cell) -> Judged:
    """Name who is slow; hosts and ranks first, then single pairs or devices."""
    left_M = np.ones(len(cell.measured), np.bool_)
    named: list[Culprit] = []
    while (culprit := _worst_part(cell, left_M)) is not None:
        named.append(culprit)
        left_M &= ~_touching(cell, culprit)
    possible = np.flatnonzero(left_M & (cell.short_M > _usual(cell, left_M)))
    single = [one for index in possible if (one := _single(cell, left_M, int(index)))]
    if len(single) > max(2.0, MANY * left_M.sum()):
        return Judged(tuple(named), len(single))
    is_sure = [cell.again_M is None or bool(cell.is_rechecked_M[one.index]) for one in single]
    sure = [one for one, known in zip(single, is_sure, strict=True) if known]
    unconfirmed = [one for one, known in zip(single, is_sure, strict=True) if not known]
    return Judged((*named, *sure), unconfirmed=tuple(unconfirmed))


def _usual(cell: Cell, left_M: Bools) -> float:
    """What is far from slow: half of the least excess above the median."""
    if not left_M.any():
        return np.inf
    return float(np.median(cell.short_M[left_M]) * (1 + (LEAST_DEVICE - 1) / 2))


def ratios(cell: Cell, own_M: Bools, others_M: Bools) -> tuple[Floats, Bools]:
    """How many times as long each of `own` takes as the median of `others`, by the shortest
    repetition, and whether it is slow: beyond noise by the shortest, which other programs disturb
    least, slow by the median as well, and slow again where it was measured again.
    """
    least = np.log(least_of(cell))
    log_O = np.log(cell.short_M[others_M])
    usual = np.median(log_O)
    beyond_noise = (BEYOND_NOISE + FEW / (log_O.size + 1) ** 2) * _spread(log_O, float(usual))
    beyond = np.log(cell.short_M[own_M]) - usual
    by_median = np.log(cell.median_M[own_M] / np.median(cell.median_M[others_M]))
    again, again_median = (times[own_M] for times in _again(cell))
    is_slow = beyond >= max(least, beyond_noise)
    enough = max(least, CONFIRMED * beyond_noise)
    is_slow_twice = (beyond >= enough) & (again >= enough) & (again_median >= least)
    return np.exp(beyond), (by_median >= least) & np.where(np.isnan(again), is_slow, is_slow_twice)


def least_of(cell: Cell) -> float:
    """Times the usual that a measurement has to take at least."""
    if cell.is_of_devices:
        return LEAST_DEVICE
    return LEAST_LATENCY if cell.num_bytes < SMALL_BYTES else LEAST_TRANSFER


def _spread(log_O: Floats, usual: float) -> float:
    """Robust standard deviation: by the median deviation, or of the faster ones if that is more."""
    by_median = MAD_TO_SD * float(np.median(np.abs(log_O - usual)))
    faster = np.sort(log_O)[: max(3, int(FASTER * log_O.size))]
    return max(by_median, float(np.sqrt(np.mean((faster - usual) ** 2))))


def _again(cell: Cell) -> tuple[Floats, Floats]:
    """Logarithms of rechecks, shortest and median, against those of the control: of those rechecked
    the one that was fastest at first. NaN where there was none.
    """
    rechecked = np.flatnonzero(cell.is_rechecked_M)
    if cell.again_M is None or cell.again_median_M is None or rechecked.size < 2:
        nothing = np.full(len(cell.measured), np.nan)
        return nothing, nothing
    control = rechecked[np.argmin(cell.short_M[rechecked])]
    again = np.log(cell.again_M / cell.again_M[control])
    return again, np.log(cell.again_median_M / cell.again_median_M[control])


def _worst_part(cell: Cell, left_M: Bools) -> Culprit | None:
    """The host, rank or link of two hosts of which nearly all measurements are slow."""
    found = []
    for what, who, touches_M in _parts(cell, left_M):
        own_M, others_M = touches_M & left_M, ~touches_M & left_M
        fewest = 2 if cell.is_of_devices or what == "hosts" else FEWEST
        if own_M.sum() < fewest or others_M.sum() < FEWEST:
            continue
        ratio, slow = ratios(cell, own_M, others_M)
        if slow.mean() >= NEARLY_ALL:
            worst = int(np.flatnonzero(own_M)[np.argmax(np.where(slow, ratio, 0))])
            middle, num_slow = float(np.median(ratio)), int(slow.sum())
            found.append(Culprit(what, who, cell, worst, middle, num_slow, int(own_M.sum())))
    return max(found, key=lambda one: (-_WIDEST.index(one.what), one.ratio), default=None)


_WIDEST = ("host", "rank", "hosts")


def _parts(cell: Cell, left_M: Bools) -> Iterator[tuple[What, Who, Bools]]:
    """What several measurements have in common, and which these are; those that may be slow."""
    if len(cell.hosts) > 1:
        for index in _suspects(cell, left_M, cell.host_ME):
            yield "host", (cell.hosts[index],), (cell.host_ME == index).any(axis=1)
    if cell.is_of_devices:
        return
    for rank in _suspects(cell, left_M, cell.rank_ME):
        yield "rank", (rank,), (cell.rank_ME == rank).any(axis=1)
    if cell.test == "pair":
        pair_M = cell.host_ME.min(axis=1) * len(cell.hosts) + cell.host_ME.max(axis=1)
        for pair in _suspects(cell, left_M, pair_M[:, None]):
            one, other = divmod(pair, len(cell.hosts))
            yield "hosts", (cell.hosts[one], cell.hosts[other]), pair_M == pair


def _suspects(cell: Cell, left_M: Bools, part_ME: Ints) -> list[int]:
    """Parts whose measurements are slower on average than the faster quarter: only these can be
    slow, and there may be thousands.
    """
    log_M = np.log(cell.short_M[left_M])
    if not log_M.size:
        return []
    columns = part_ME.shape[1]
    part_P = part_ME[left_M].ravel()
    total = np.bincount(part_P, np.repeat(log_M, columns))
    number = np.bincount(part_P)
    with np.errstate(invalid="ignore"):
        is_slow = total / number >= np.percentile(log_M, 25) + np.log(LEAST_DEVICE) / 2
    return [int(part) for part in np.flatnonzero(is_slow & (number > 0))]


def _touching(cell: Cell, culprit: Culprit) -> Bools:
    if culprit.what == "rank":
        return np.asarray((cell.rank_ME == culprit.who[0]).any(axis=1))
    hosts = [cell.hosts.index(str(host)) for host in culprit.who]
    found = np.array([(cell.host_ME == index).any(axis=1) for index in hosts])
    return np.asarray(found.all(axis=0))


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

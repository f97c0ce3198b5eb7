"""Clocks of ranks from the ends of the collectives they took part in.

No member of an all-reduce (all-gather, ...) can be through before all have begun, so its members
end at nearly the same moment, however late one of them came: ends compare clocks, starts do not.
Within a group each member's ends are compared with the members' mean, instance by instance, and
joined robustly over time; groups that share ranks are joined by weighted least squares. Members
whose ends do not fit (a group recorded wrongly, instances numbered differently) are left out
(diagnosis.clocks.sequence_matching, also on groups of which some members are missing).

Source: Doleschal et al., Internal timer synchronization for parallel event tracing (2008), here
with the ends of collectives only.
Assumes: a clock is a straight line over the trace. False where it jumps or is slewed: the residuals
grow, and with them the stated error. A member that always sees the end later by the same time (a
polling thread) has that time in its offset.

Shape suffixes: N ends, K instances of one group, M its members, T ties (a group's member), R ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.clocks.offset_graph import (
    Floats,
    Ints,
    Ties,
    deviations_from,
    largest_part,
    least_squares,
    misfits,
)
from diagnosis.clocks.sequence_matching import (
    LEAST_MEMBERS,
    PLAINLY,
    fits_better_elsewhere,
    sharpness,
)

LARGEST_ERR_NS = 5e6
"""An offset known worse than this aligns nothing."""
KNOWN_DRIFT = 1e-6
"""Drift is stated where it is known to better than 1 ppm; quartz clocks differ by up to 100 ppm."""
_LEAST_NOISE_NS = 2_000.0
"""On one host, where clocks are equal, members of an NCCL kernel see its end up to 3 us apart."""
_COVERAGE = 2.0
"""Stated errors are this many robust standard deviations of single residuals. They are not divided
by the root of the number of instances: what parts the ends of a collective (the order of a ring,
how it is polled) is the same each time and does not average out."""
_MISFIT, _MISFIT_NS = 5.0, 100_000.0
"""Groups may contradict each other by this many standard deviations and this much."""
_PLAINLY = 1.2
"""A group is left out only where it fits this much less than any other; else the error says it."""
_FEW = 3
_BLOCKS = 16
_MOST_ROUNDS = 50


@dataclass(frozen=True)
class MatchedEnds:
    """Ends of instances, one row per member that saw it; instances are numbered over all groups.

    `spent_ns_N` is how long the member was in it; the shortest of an instance bounds how far its
    ends can lie apart. `num_missing_N` says how many members of the group did not record it.
    Raises ValueError for columns of different lengths.
    """

    group_N: Ints
    instance_N: Ints
    rank_N: Ints
    end_ns_N: Ints
    spent_ns_N: Ints
    num_missing_N: Ints

    def __post_init__(self) -> None:
        sizes = {len(column) for column in vars(self).values()}
        if len(sizes) > 1:
            raise ValueError(f"columns of {sorted(sizes)} ends; give each column for all ends")


@dataclass(frozen=True)
class RankClock:
    """One rank's clock against the reference: aligned = t + offset_ns + drift x (t - ts_ns)."""

    rank: int
    ts_ns: int
    """the moment of offset_ns, on its own clock"""
    offset_ns: int
    err_ns: int
    """uncertainty of aligned times anywhere in the trace"""
    drift_ppb: int
    drift_err_ppb: int | None
    """uncertainty of drift_ppb; None where the trace is too short to measure it: it is then 0"""
    residual_ns: int
    """robust standard deviation of its ends around their instances"""


@dataclass(frozen=True)
class Misfit:
    """A member left out of a group: its ends do not fit those of the others."""

    group: int
    rank: int
    residual_ns: int


@dataclass(frozen=True)
class Alignment:
    """The result of comparing the ends; `reference` is None where they connect no two ranks."""

    reference: int | None
    clocks: Mapping[int, RankClock]
    unaligned: Sequence[int]
    misfits: Sequence[Misfit] = ()
    incomplete: Sequence[int] = ()
    """groups of which members are missing, but whose ends were used"""
    unproven: Sequence[int] = ()
    """those whose ends were not, because they might belong to different instances"""


@dataclass(frozen=True)
class _Group:
    """Instances of one group that exactly `rank_M` recorded, in order of time."""

    group: int
    rank_M: Ints
    end_KM: Floats
    """ns since the trace's origin"""
    apart_ns: float
    """the most that ends can lie apart, where there are too few to see it"""
    num_missing: int
    """members that recorded none of them"""

    def without(self, member: int) -> _Group | None:
        """The group without one member; None where that leaves nobody to compare."""
        if len(self.rank_M) < 3:
            return None
        rank_M, end_KM = np.delete(self.rank_M, member), np.delete(self.end_KM, member, axis=1)
        return replace(self, rank_M=rank_M, end_KM=end_KM)

    def misfits(self, member: int, residual_ns: float) -> list[Misfit]:
        """What leaving it out leaves out: of two, it is unknown which is wrong."""
        out = self.rank_M if len(self.rank_M) < 3 else self.rank_M[[member]]
        return [Misfit(self.group, rank, round(residual_ns)) for rank in out.tolist()]


@dataclass(frozen=True)
class _Worst:
    """A member (by position) of a group (by position) that fits least."""

    group: int
    member: int
    residual_ns: float


def align(ends: MatchedEnds, ranks: Sequence[int]) -> Alignment:
    """Offset and drift of each of `ranks` against the lowest rank of the largest connected part."""
    origin_ns = int(np.median(ends.end_ns_N)) if len(ends.end_ns_N) else 0
    groups, left_out, unproven = _consistent(_groups(ends, origin_ns))
    clocks: dict[int, RankClock] = {}
    for _ in range(_MOST_ROUNDS if groups else 0):
        ties = _Solution(groups, origin_ns)
        clocks, worst = ties.clocks(), ties.worst()
        if worst is None:
            break
        groups, gone = _without(groups, worst)
        left_out += gone
    known = {r: clock for r, clock in sorted(clocks.items()) if clock.err_ns <= LARGEST_ERR_NS}
    known = known if len(known) > 1 else {}
    return Alignment(
        reference=min(known, default=None),
        clocks=known,
        unaligned=[rank for rank in sorted(ranks) if rank not in known],
        misfits=left_out,
        incomplete=sorted({group.group for group in groups if group.num_missing}),
        unproven=sorted(unproven - {group.group for group in groups}),
    )


def _groups(ends: MatchedEnds, origin_ns: int) -> list[_Group]:
    """Groups with their instances as matrices: one for each set of members that recorded some."""
    order = np.lexsort((ends.rank_N, ends.instance_N, ends.group_N))
    instance_N = ends.instance_N[order]
    borders = np.flatnonzero(np.diff(instance_N)) + 1
    rows_of: dict[tuple[int, bytes], list[Ints]] = defaultdict(list)
    for rows in np.split(order, borders) if len(order) else []:
        rows_of[int(ends.group_N[rows[0]]), ends.rank_N[rows].tobytes()].append(rows)
    groups = []
    for (group, _), rows_K in rows_of.items():
        rows_KM = np.stack(rows_K)
        if rows_KM.shape[1] < 2:
            continue
        end_KM = (ends.end_ns_N[rows_KM] - origin_ns).astype(np.float64)
        in_time = np.argsort(np.median(end_KM, axis=1))
        apart_ns = float(np.median(ends.spent_ns_N[rows_KM].min(axis=1)))
        rank_M, num_missing = ends.rank_N[rows_KM[0]], int(ends.num_missing_N[rows_KM].min())
        groups.append(_Group(group, rank_M, end_KM[in_time], apart_ns, num_missing))
    return groups


def _consistent(groups: Sequence[_Group]) -> tuple[list[_Group], list[Misfit], set[int]]:
    """Groups without members that do not fit the others, these, and groups that prove nothing.

    Files of members may be missing because they are unreadable, or because those that are here are
    of different times: groups that are not whole must be plainly numbered the same way.
    """
    kept, left_out, unproven = [], [], set()
    for candidate in groups:
        group, gone = _without_misfits(candidate)
        if candidate.num_missing and not (group and _is_numbered_alike(group)):
            unproven.add(candidate.group)
            continue
        left_out += gone
        kept += [group] if group else []
    return kept, left_out, unproven


def _without_misfits(candidate: _Group) -> tuple[_Group | None, list[Misfit]]:
    """The group without members whose ends scatter against the others' or fit other instances."""
    group: _Group | None = candidate
    left_out: list[Misfit] = []
    while group is not None:
        noise_M = _noise(_detrended(group), group.apart_ns)
        shifted = fits_better_elsewhere(group.end_KM)
        worst = int(np.argmax(noise_M)) if shifted is None else shifted
        if shifted is None and noise_M[worst] <= LARGEST_ERR_NS / _COVERAGE:
            break
        left_out += group.misfits(worst, float(noise_M[worst]))
        group = group.without(worst)
    return group, left_out


def _is_numbered_alike(group: _Group) -> bool:
    enough = len(group.rank_M) >= LEAST_MEMBERS
    return enough and bool((sharpness(group.end_KM) >= PLAINLY).all())


def _without(groups: Sequence[_Group], worst: _Worst) -> tuple[list[_Group], list[Misfit]]:
    """The groups without one member of one of them."""
    kept = list(groups)
    group = kept.pop(worst.group)
    smaller = group.without(worst.member)
    return kept + ([smaller] if smaller else []), group.misfits(worst.member, worst.residual_ns)


def _deviation(end_KM: Floats) -> Floats:
    """Ends against the mean of their instance: linear in the clocks, whoever of them is off."""
    deviation_KM: Floats = end_KM - end_KM.mean(axis=1, keepdims=True)
    return deviation_KM


def _slopes(group: _Group) -> tuple[Floats, Floats]:
    """Slope of each member's deviation over time, and its robust standard error (inf unknown)."""
    deviation_KM = _deviation(group.end_KM)
    time_K = group.end_KM.mean(axis=1)
    if len(time_K) < 2 * _FEW:
        return np.zeros(len(group.rank_M)), np.full(len(group.rank_M), np.inf)
    blocks = np.array_split(np.arange(len(time_K)), min(_BLOCKS, len(time_K) // _FEW))
    time_B = np.array([np.median(time_K[block]) for block in blocks])
    median_BM = np.array([np.median(deviation_KM[block], axis=0) for block in blocks])
    centred_B = time_B - time_B.mean()
    spread = float(centred_B @ centred_B)
    if spread <= 0:
        return np.zeros(len(group.rank_M)), np.full(len(group.rank_M), np.inf)
    slope_M = centred_B @ median_BM / spread
    noise_M = _noise(deviation_KM - time_K[:, None] * slope_M, group.apart_ns)
    return slope_M, noise_M / np.sqrt(spread)


def _detrended(group: _Group) -> Floats:
    slope_M, _ = _slopes(group)
    detrended_KM: Floats = _deviation(group.end_KM) - group.end_KM.mean(axis=1)[:, None] * slope_M
    return detrended_KM


def _noise(deviation_KM: Floats, apart_ns: float) -> Floats:
    """Robust standard deviation of each column around its median.

    Of a few values it is the greatest distance; of one or two it cannot be seen: the ends can lie
    apart as long as the data moved.
    """
    distance_KM = np.abs(deviation_KM - np.median(deviation_KM, axis=0))
    if len(distance_KM) < _FEW:
        return np.full(distance_KM.shape[1], max(apart_ns / _COVERAGE, _LEAST_NOISE_NS))
    if len(distance_KM) < 2 * _FEW:
        noise_M: Floats = distance_KM.max(axis=0)
    else:
        noise_M = 1.4826 * np.median(distance_KM, axis=0)
    return np.clip(noise_M, _LEAST_NOISE_NS, None)


class _Solution:
    """Least squares over all groups: drifts first, then offsets with the drifts taken out."""

    def __init__(self, groups: Sequence[_Group], origin_ns: int) -> None:
        self._groups, self._origin_ns = groups, origin_ns
        self._rank_R = np.unique(np.concatenate([group.rank_M for group in groups]))
        self._index = [np.searchsorted(self._rank_R, group.rank_M) for group in groups]
        slopes = self._ties([_slopes(group) for group in groups])
        self._part = largest_part(replace(slopes, noise_T=np.ones(len(slopes.noise_T))))
        self._base = int(self._part[0])
        self._drift_err_R = _COVERAGE * deviations_from(slopes, self._base)
        drift_R = least_squares(slopes)
        is_known_R = self._drift_err_R <= KNOWN_DRIFT
        self._drift_R = np.where(is_known_R, drift_R - drift_R[self._base], 0.0)
        self._drift_err_R[~is_known_R] = np.inf
        self._ties_of_offsets = self._ties([self._offsets(g) for g in range(len(groups))])
        offset_R = least_squares(self._ties_of_offsets)
        self._offset_R = offset_R - offset_R[self._base]
        self._misfit_T = misfits(self._ties_of_offsets, offset_R)

    def _ties(self, values: Sequence[tuple[Floats, Floats]]) -> Ties:
        return Ties(
            group_T=np.repeat(np.arange(len(values)), [len(index) for index in self._index]),
            rank_T=np.concatenate(self._index),
            value_T=np.concatenate([value_M for value_M, _ in values]),
            noise_T=np.concatenate([noise_M for _, noise_M in values]),
            num_ranks=len(self._rank_R),
        )

    def _offsets(self, g: int) -> tuple[Floats, Floats]:
        """Each member's median deviation without drift, and its noise."""
        group = self._groups[g]
        deviation_KM = _deviation(group.end_KM * (1 + self._drift_R[self._index[g]]))
        return np.median(deviation_KM, axis=0), _noise(deviation_KM, group.apart_ns)

    def worst(self) -> _Worst | None:
        """The member whose ends contradict the other groups most, where it is plainly one group."""
        ties = self._ties_of_offsets
        excess_T = self._excess_T()
        t = int(np.argmax(excess_T))
        others_T = excess_T[ties.group_T != ties.group_T[t]]
        if excess_T[t] <= 1 or excess_T[t] < _PLAINLY * others_T.max(initial=0.0):
            return None
        g = int(ties.group_T[t])
        member = t - int(np.searchsorted(ties.group_T, g))
        return _Worst(g, member, float(abs(self._misfit_T[t])))

    def _excess_T(self) -> Floats:
        """How far each member contradicts other groups, in what is allowed."""
        allowed_T = _MISFIT * self._ties_of_offsets.noise_T + _MISFIT_NS
        excess_T: Floats = np.abs(self._misfit_T) / allowed_T
        return excess_T

    def _contradiction_ns(self) -> float:
        """What groups that contradict each other leave open.

        Least squares gives each group of a loop its part of the gap; the gap is their sum.
        """
        group_T = self._ties_of_offsets.group_T
        contradicting = np.unique(group_T[self._excess_T() > 1])
        return float(sum(np.ptp(self._misfit_T[group_T == group]) for group in contradicting))

    def clocks(self) -> dict[int, RankClock]:
        """Clock of each rank of the largest part."""
        ties = self._ties_of_offsets
        contradicted = replace(ties, noise_T=np.hypot(ties.noise_T, self._misfit_T))
        err_R = _COVERAGE * deviations_from(contradicted, self._base) + self._contradiction_ns()
        err_R[self._base] = 0.0
        ends_of: dict[int, list[Floats]] = {r: [] for r in self._part.tolist()}
        noise_of: dict[int, list[float]] = {r: [] for r in self._part.tolist()}
        for group, index in zip(self._groups, self._index, strict=True):
            for member, r in enumerate(index.tolist()):
                if r in ends_of:
                    ends_of[r].append(group.end_KM[:, member])
        for r, noise in zip(ties.rank_T.tolist(), ties.noise_T.tolist(), strict=True):
            if r in noise_of:
                noise_of[r].append(noise)
        return {
            int(self._rank_R[r]): self._clock(r, float(err_R[r]), ends_of[r], noise_of[r])
            for r in ends_of
        }

    def _clock(self, r: int, err_ns: float, ends: list[Floats], noise: list[float]) -> RankClock:
        first_ns = min(float(end_K.min()) for end_K in ends)
        last_ns = max(float(end_K.max()) for end_K in ends)
        middle_ns = round((first_ns + last_ns) / 2)
        drift, drift_err = float(self._drift_R[r]), float(self._drift_err_R[r])
        is_known = bool(np.isfinite(drift_err))
        far_off_ns = drift_err * (last_ns - first_ns) / 2 if is_known else 0.0
        return RankClock(
            rank=int(self._rank_R[r]),
            ts_ns=self._origin_ns + middle_ns,
            offset_ns=round(float(self._offset_R[r]) + drift * middle_ns),
            err_ns=round(err_ns + far_off_ns),
            drift_ppb=round(drift * 1e9),
            drift_err_ppb=round(drift_err * 1e9) if is_known else None,
            residual_ns=round(float(np.median(noise))),
        )

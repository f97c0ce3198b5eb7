"""Why a rank comes late: the time of each step in which it does not communicate, by phase.

In a synchronous job all steps end together, so whoever spends more time outside of communication
than its peers makes them wait; its own communication is the shortest (MegaScale, 2402.15627). That
excess needs no aligned clocks. It is divided into what the rank did meanwhile:

compute     forward, backward, wgrad and optimizer (CPU time where the job ran on CPU)
stretch     wall time of compute beyond its CPU time: the thread stood still in the middle of it
data        blocked on the next batch
gc          garbage collections
checkpoint  saving
rest        none of these: host code, or nothing that was recorded

Sources that log no communication at all (phase timers around forward and backward) hide waiting in
what they call compute: there self time is what lies outside of compute, communication and waiting,
and a rank that others wait for shows LESS compute than they do.

Self time: a step less its communication. Assumes: ranks of one stage have equal work, and the job
synchronises at least once a step. Shape suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from diagnosis.statistics.episodes import (
    MIN_VOTES,
    OVER_AFTER_STEPS,
    Episode,
    episodes,
    may_be_slow,
)
from diagnosis.statistics.peers import MIN_PEERS, NOISE_MADS, medians_of_others
from diagnosis.statistics.rank_tables import Bools, Floats, Ints, Ranks, placed, spread_cells
from diagnosis.statistics.straggler_cells import CELLS, without_pauses
from diagnosis.statistics.units import steps_text

MIN_EXCESS = 0.03
"""Smallest share of a step: below S = 1.03 attribution means nothing (what-if study, 2505.05713).
A step votes fully at twice this."""

MAIN_SHARE = 0.5
"""A phase is the reason where it makes up at least half of what the rank comes late by."""

STEADY_SHARE = 0.8
"""A rank is at fault by itself where it exceeds the threshold in this share of the episode's steps;
lateness that comes and goes, or moves among ranks, is no fault of one."""

MOST_UNSEEN = 0.1
"""Where the middle rank's steps have a greater share outside of what was recorded, waiting for
others may lie there, too, and it does not show who is at fault."""

MINOR = 0.05
"""What is over and took less time than this share of the worst of its kind is no finding by itself:
what a fault stirs up around it (restarted workers, cold caches)."""

MOST_KEPT = 0.5
"""Ranks that stand still for more of their compute than they run have fewer cores than threads."""

IDLE = ("forward_idle_ms", "backward_idle_ms")
"""Wall time beyond CPU time by direction: of what `stretch` consists."""

_LOGGED_COMM = 0.02
"""Less communication than this share of a step means that the source does not log it."""


@dataclass(frozen=True)
class PhaseTimes:
    """What ranks do outside of communication; NaN unknown. Against peers: only where asked for."""

    ranks: Ranks
    step_S: Ints
    window_S: Floats  # ms, median over the ranks
    self_RS: Floats  # ms, as far as ranks are compared by it
    phases: dict[str, Floats]  # ms
    waits_hidden: bool  # communication is not logged: compute may hold waiting
    stage_R: Ints

    @cached_property
    def late_RS(self) -> Floats:
        """Self time beyond the median of the peers, share of the job's step."""
        return self._beyond(self.self_RS)

    def beyond_peers(self, phase: str) -> Floats:
        """Time in one phase beyond the median of the peers, share of the job's step."""
        return self._beyond(self.phases[phase])

    def _beyond(self, value_RS: Floats) -> Floats:
        """Less the median of the others of the stage; NaN with fewer than 3 others."""
        beyond_RS = np.full(value_RS.shape, np.nan)
        for stage in np.unique(self.stage_R):
            rows = np.flatnonzero(self.stage_R == stage)
            if rows.size > MIN_PEERS:
                value_NS = value_RS[rows]
                others_NS = medians_of_others(value_NS, np.ones(rows.size, np.bool_))
                beyond_RS[rows] = (value_NS - others_NS) / self.window_S
        return beyond_RS


_CACHE: dict[tuple[int, ...], PhaseTimes] = {}
"""By identity of the answers, as long as they live: many detectors read the same."""


def phase_times(tables: Mapping[str, pa.Table]) -> PhaseTimes:
    """Phases of the answers `rank_phases` and `rank_places`; do not change its arrays."""
    answers = [tables[name] for name in ("rank_phases", "rank_places", CELLS) if name in tables]
    key = tuple(map(id, answers))
    if key not in _CACHE:
        for answer in answers:
            weakref.finalize(answer, _CACHE.pop, key, None)
        _CACHE[key] = _phase_times(tables)
    return _CACHE[key]


def _phase_times(tables: Mapping[str, pa.Table]) -> PhaseTimes:
    rank_R = np.unique(tables["rank_phases"]["rank"].to_numpy()).astype(np.int64)
    ranks = placed(rank_R, tables["rank_places"])
    _, step_S, cells = spread_cells(without_pauses(tables["rank_phases"], tables, ranks))
    window_RS = cells["step_ms"]
    window_S = middles(window_RS)
    window_S[window_S <= 0] = np.nan
    comm_S = middles(cells["comm_ms"])
    logged = step_S.size > 0 and middle(comm_S / window_S) >= _LOGGED_COMM
    hidden = rank_R.size > 1 and not logged
    self_RS = window_RS - cells["comm_ms"]
    phases = _phases(cells, ranks)
    if hidden:
        self_RS = self_RS - cells["compute_ms"] - cells["host_ms"]
        phases = {**phases, "compute": np.zeros_like(self_RS), "stretch": np.zeros_like(self_RS)}
    phases["rest"] = self_RS - sum(phases.values())
    if middle(phases["rest"] / window_S) > MOST_UNSEEN:
        self_RS = self_RS - phases["rest"]
        phases["rest"] = np.zeros_like(self_RS)
    stage_R, mixed = _groups(ranks)
    phases |= {name: cells[name] for name in IDLE}
    compared_RS = self_RS - phases["compute"] if mixed else self_RS
    return PhaseTimes(ranks, step_S, window_S, compared_RS, phases, hidden, stage_R)


def _phases(cells: dict[str, Floats], ranks: Ranks) -> dict[str, Floats]:
    compute_RS, cpu_RS = cells["compute_ms"], cells["cpu_ms"]
    by_cpu_RS = np.isfinite(cpu_RS) & ranks.on_cpu
    work_RS = np.where(by_cpu_RS, np.minimum(cpu_RS, compute_RS), compute_RS)
    return {
        "compute": work_RS,
        "stretch": compute_RS - work_RS,
        "data": cells["data_ms"],
        "gc": cells["gc_ms"],
        "checkpoint": cells["checkpoint_ms"],
    }


def _groups(ranks: Ranks) -> tuple[Ints, bool]:
    """Ranks of one stage are compared; where a stage has fewer than 4, all ranks, whose compute may
    then differ for good: the second value."""
    stage_R = np.unique(np.maximum(ranks.coords_R["pp"], 0), return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(stage_R)
    if sizes.size > 1 and int(sizes.min()) <= MIN_PEERS:
        return np.zeros(stage_R.size, np.int64), True
    return stage_R.astype(np.int64), False


@dataclass(frozen=True)
class Late:
    """One rank that is late for one reason for a while. `row`: index of the rank."""

    row: int
    episode: Episode
    share: float  # of a step, by which it comes late for this reason
    steady: float  # share of the episode's steps in which it does


def late_by(times: PhaseTimes, phases: Iterable[str]) -> list[Late]:
    """Episodes of ranks that are late because of these phases, in order of ranks and time."""
    reason_RS = np.sum([times.beyond_peers(name) for name in phases], axis=0)
    excess_RS = np.fmin(reason_RS, times.late_RS)
    excess_RS[~(np.isfinite(reason_RS) & np.isfinite(times.late_RS))] = np.nan
    threshold_R = _thresholds(times, times.late_RS, NOISE_MADS)
    lates = []
    for row in np.flatnonzero(may_be_slow(excess_RS, threshold_R)).tolist():
        for episode in episodes(excess_RS[row], float(threshold_R[row])):
            span = slice(episode.first, episode.last + 1)
            late = middle(times.late_RS[row, span])
            if episode.excess < MAIN_SHARE * late:
                continue
            beyond_S: Bools = excess_RS[row, span] >= threshold_R[row]
            lates.append(Late(row, episode, episode.excess, float(beyond_S.mean())))
    return lates


def late_by_one(times: PhaseTimes, phase: str, mads: float) -> list[Late]:
    """The same for one phase that is measured better than lateness is: steps vote by the phase
    alone, against `mads` MAD of it. What else a rank does meanwhile, on shared cores above all
    being kept from them, does not hide it; that it comes late is asked of the whole episode.
    """
    reason_RS = times.beyond_peers(phase)
    threshold_R = _thresholds(times, reason_RS, mads)
    lates = []
    for row in np.flatnonzero(may_be_slow(reason_RS, threshold_R)).tolist():
        for episode in episodes(reason_RS[row], float(threshold_R[row])):
            span = slice(episode.first, episode.last + 1)
            late = middle(times.late_RS[row, span])
            if not min(episode.excess, late) >= MAIN_SHARE * max(episode.excess, late):
                continue
            beyond_S: Bools = reason_RS[row, span] >= MIN_EXCESS
            lates.append(Late(row, episode, min(episode.excess, late), float(beyond_S.mean())))
    return lates


def worth_telling(times: PhaseTimes, lates: Sequence[Late]) -> tuple[list[Late], list[str]]:
    """Those that go on or took more time than MINOR of the worst, and sentences on the others."""
    newest = times.step_S.size - 1 - OVER_AFTER_STEPS
    spans = [slice(late.episode.first, late.episode.last + 1) for late in lates]
    cost = [
        late.share * float(np.nansum(times.window_S[span]))
        for late, span in zip(lates, spans, strict=True)
    ]
    major, minor = [], []
    for late, own in zip(lates, cost, strict=True):
        if late.episode.last > newest or own >= MINOR * max(cost):
            major.append(late)
            continue
        first, last = times.step_S[late.episode.first], times.step_S[late.episode.last]
        minor.append(
            f"Rank {times.ranks.rank_R[late.row]} came late by {100 * late.share:.0f} % of a step "
            f"in {steps_text(first, last)}: over, and small against the worst."
        )
    return major, minor


def _thresholds(times: PhaseTimes, excess_RS: Floats, mads: float) -> Floats:
    """`mads` MAD of the ranks of the stage that do not stand out for a while themselves, at least
    MIN_EXCESS; where all do, of its changes from step to step.
    """
    threshold_R = np.full(excess_RS.shape[0], MIN_EXCESS)
    jumps_RS = np.abs(np.diff(excess_RS, axis=1)) / np.sqrt(2)
    for stage in np.unique(times.stage_R):
        rows = np.flatnonzero(times.stage_R == stage)
        excess_NS = excess_RS[rows]
        by_jumps = mads * middle(jumps_RS[rows])
        lenient_N = np.full(rows.size, max(by_jumps, MIN_EXCESS) if by_jumps > 0 else MIN_EXCESS)
        cells = excess_NS[~may_be_slow(excess_NS, lenient_N)]
        noise = mads * middle(np.abs(cells - middle(cells))) if cells.size else by_jumps
        threshold_R[rows] = max(noise, MIN_EXCESS) if noise > 0 else MIN_EXCESS
    return threshold_R


def kept_from_cores(times: PhaseTimes) -> str | None:
    """A sentence where ranks that compute on CPUs wait for cores most of the time, None elsewhere.

    What the threads of such ranks do, transfers too, takes as long as cores are late; and their
    work takes more CPU time when others use the same caches.
    """
    still_RS, work_RS = times.phases["stretch"], times.phases["compute"]
    share = middle(still_RS / np.where(work_RS > 0, still_RS + work_RS, np.nan))
    if not share > MOST_KEPT:
        return None
    return (
        f"Ranks wait for CPU cores during {100 * share:.0f} % of their compute time: how long "
        "transfers and equal work take depends on the cores here, not on the network or the job."
    )


def comparable(times: PhaseTimes) -> bool:
    """Whether there are ranks and steps enough to say anything of a rank."""
    known_R = np.isfinite(times.late_RS).sum(axis=1) >= MIN_VOTES
    return bool(known_R.any())


def middle(values: Floats) -> float:
    """Median of what is known; NaN of nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def middles(values_RS: Floats) -> Floats:
    """Median of what is known in each column, as `middle` of each; NaN of nothing."""
    is_known_RS = np.isfinite(values_RS)
    num_S = is_known_RS.sum(axis=0)
    if not num_S.any():
        return np.full(num_S.shape, np.nan)
    sorted_RS = np.sort(np.where(is_known_RS, values_RS, np.inf), axis=0)
    column_S = np.arange(num_S.size)
    low_S, high_S = np.maximum(num_S - 1, 0) // 2, num_S // 2
    with np.errstate(invalid="ignore"):
        middle_S = (sorted_RS[low_S, column_S] + sorted_RS[high_S, column_S]) / 2
    return np.where(num_S > 0, middle_S, np.nan)

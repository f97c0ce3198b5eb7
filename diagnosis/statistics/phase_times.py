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

Phase timers and asynchronous launches hide waiting in phases that are not called communication,
and a rank that others wait for shows LESS of these than they do. Which do is decided from the data
of each run (diagnosis/statistics/hidden_waits.py); self time counts them by the share that is no
waiting.

Self time: a step less its communication. Assumes: ranks of one stage have equal work, and the job
synchronises at least once a step. Shape suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from diagnosis.statistics.episodes import (
    MIN_VOTES,
)
from diagnosis.statistics.hidden_waits import hidden_shares, is_clear, mirrored_share
from diagnosis.statistics.peers import MIN_PEERS, medians_of_others
from diagnosis.statistics.rank_tables import Floats, Ints, Ranks, placed, spread_cells
from diagnosis.statistics.straggler_cells import CELLS, without_pauses

MIN_EXCESS = 0.03
"""Smallest share of a step: below S = 1.03 attribution means nothing (what-if study, 2505.05713).
A step votes fully at twice this."""

MOST_KEPT = 0.5
"""Ranks that stand still for more of their compute than they run have fewer cores than threads."""

IDLE = ("forward_idle_ms", "backward_idle_ms")
"""Wall time beyond CPU time by direction: of what `stretch` consists."""


@dataclass(frozen=True)
class PhaseTimes:
    """What ranks do outside of communication; NaN unknown. Against peers: only where asked for."""

    ranks: Ranks
    step_S: Ints
    window_S: Floats  # ms, median over the ranks
    self_RS: Floats  # ms, as far as ranks are compared by it
    phases: dict[str, Floats]  # ms
    comm_RS: Floats  # ms that compute does not hide
    hidden: dict[str, float]  # share of the waiting that a phase takes up; empty: not known
    stage_R: Ints
    mixed: bool = False  # ranks of several stages are compared: their compute may differ for good

    @property
    def has_roles(self) -> bool:
        """Whether ranks are compared with those of the same role alone."""
        return self.ranks.has_roles and not self.mixed

    @property
    def waits_hidden(self) -> bool:
        """Whether compute holds waiting for other ranks."""
        return self.hides("compute")

    def hides(self, phase: str) -> bool:
        """Whether a phase holds more waiting than not."""
        return self.hidden.get(phase, 0.0) >= 1 / 2

    def mirrored(self, phase: str) -> float:
        """How far a phase mirrors the rest of the step over the ranks, 0 to 1."""
        own = {name: value_RS for name, value_RS in self.phases.items() if name not in IDLE}
        return mirrored_share(own, phase, self.window_S, self.stage_R)

    @cached_property
    def is_clear(self) -> bool:
        """Whether it is clear of every phase that it holds waiting, or does not; never where ranks
        differ too little to show it.
        """
        return bool(self.hidden) and all(map(is_clear, self.hidden.values()))

    @cached_property
    def late_RS(self) -> Floats:
        """Self time beyond the median of the peers, share of the job's step."""
        return self._beyond(self.self_RS)

    def beyond_peers(self, phase: str) -> Floats:
        """Time in one phase beyond the median of the peers, share of the job's step; of a phase
        that hides waiting the share that is none.
        """
        own = 1 - self.hidden.get(phase, 0.0)
        return own * self._beyond(self.phases[phase]) if own else 0 * self._beyond(self.self_RS)

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
    self_RS = window_RS - cells["comm_ms"]
    phases = _phases(cells, ranks)
    phases["rest"] = self_RS - sum(phases.values())
    stage_R, mixed = _groups(ranks)
    hidden = _hidden(phases, cells["comm_ms"], window_S, stage_R)
    for name, share in hidden.items():
        self_RS = self_RS - share * phases[name]
    phases |= {name: cells[name] for name in IDLE}
    compared_RS = self_RS - (1 - hidden.get("compute", 0.0)) * phases["compute"]
    return PhaseTimes(
        ranks,
        step_S,
        window_S,
        compared_RS if mixed else self_RS,
        phases,
        cells["comm_ms"],
        hidden,
        stage_R,
        mixed,
    )


def _hidden(
    phases: Mapping[str, Floats], comm_RS: Floats, window_S: Floats, stage_R: Ints
) -> dict[str, float]:
    """Shares of waiting by phase; of one rank alone none. Where ranks differ too little to show
    where they wait, none are known if communication was recorded; if not, they wait in compute.
    """
    if stage_R.size < 2:
        return {}
    shares = hidden_shares(phases, window_S, stage_R)
    if shares is not None:
        return shares
    return {} if middle(middles(comm_RS)) > 0 else dict.fromkeys(("compute", "stretch"), 1.0)


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


def standing_still(times: PhaseTimes, rank: int, first_step: int, last_step: int) -> float:
    """Share of a step that a rank stands still in its compute beyond its peers, in these steps."""
    row = int(np.searchsorted(times.ranks.rank_R, rank))
    meant_S = (times.step_S >= first_step) & (times.step_S <= last_step)
    return middle(times.beyond_peers("stretch")[row, meant_S])


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

"""Which ranks come late for one reason for a while, and whether they are at fault by themselves.

A culprit is late in nearly every step of its episode, by about as much each time, and nobody but
other culprits comes later. Where ranks swing by themselves (a busy host, work that moves among
ranks), some rank is late in any step, and none of them is all of this.

Source: late arrival names the culprit (MegaScale, 2402.15627); the measures are ours. Shape
suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.statistics.episodes import (
    MIN_VOTES,
    OVER_AFTER_STEPS,
    Episode,
    episodes,
    may_be_slow,
)
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.swings import no_swings
from diagnosis.statistics.units import steps_text

MAIN_SHARE = 0.5
"""A phase is the reason where it makes up at least half of what the rank comes late by."""

STEADY_SHARE = 0.8
"""A rank is at fault by itself where it exceeds the threshold in this share of the episode's steps;
lateness that comes and goes, or moves among ranks, is no fault of one."""

LEAST_EVEN, _NEARLY_ALL = 0.3, 0.9
"""What grows from nothing over its episode is late by a fifth of its median or more in nine of ten
steps; what strikes in some steps only is not late at all in more than one of ten. Fitted to
labelled runs of real accelerators (benchmarks/accuracy/fit.py)."""

LEAST_LAST = 0.75
"""In so many of the steps nobody but other culprits comes later. The fit gives 0.73, in the middle
of a gap from 0.47 to 0.98."""

SURELY_LAST, SURELY_EVEN = 0.95, 0.5
"""From here on the finding is of high confidence."""

_CALM = 0.01
"""Share of steps in which ranks that are not accused may stand out."""

SHORT_STEPS, FEWEST_MOVING = 20, 3
"""Three ranks that are late for fewer steps than that."""

_LEAST_LONGER, _STEPS_BEFORE, _JUST_BEFORE = 0.25, 50, 10
"""Steps are longer than those before by at least a quarter of what the rank comes late by: others
may have come late by some of it before. Where something else made steps long before, they are
longer than the last ten."""

MINOR = 0.05
"""What is over and took less time than this share of the worst of its kind is no finding by itself:
what a fault stirs up around it (restarted workers, cold caches)."""


@dataclass(frozen=True)
class Late:
    """One rank that is late for one reason for a while. `row`: index of the rank."""

    row: int
    episode: Episode
    share: float  # of a step, by which it comes late for this reason
    steady: float  # share of the episode's steps in which it does
    even: float  # what it is late by in nine of ten steps or more, against the median step
    last: float = 1.0  # share of the steps in which nobody but other culprits comes later

    @property
    def span(self) -> slice:
        """Columns of the episode."""
        return slice(self.episode.first, self.episode.last + 1)

    @property
    def num_steps(self) -> int:
        """Steps of the episode."""
        return self.episode.last - self.episode.first + 1

    @property
    def signs(self) -> str:
        """How steady it is late and how often last, a sentence."""
        return (
            f"It is late in {100 * self.steady:.0f} % of these steps, later than all others but "
            f"culprits in {100 * self.last:.0f} %, and in nine of ten by at least "
            f"{100 * self.even:.0f} % of the usual."
        )

    def confidence(self, times: PhaseTimes) -> str:
        """high: last in nearly all steps, evenly, since some step of the run or among ranks whose
        roles are known; low: where ranks wait is not clear.
        """
        if not times.is_clear:
            return "low"
        began = self.episode.first > 0 or times.ranks.has_roles
        sure = self.last >= SURELY_LAST and self.even >= SURELY_EVEN and began
        return "high" if sure else "medium"

    @property
    def is_steady(self) -> bool:
        """Whether it is late in nearly every step, by about as much each time."""
        return self.steady >= STEADY_SHARE and self.even >= LEAST_EVEN


@dataclass(frozen=True)
class Candidates:
    """Episodes in which ranks are late for one reason, whoever is at fault. R ranks, S steps."""

    excess_RS: Floats
    threshold_R: Floats
    lates: list[Late]


def late_by(times: PhaseTimes, phases: Iterable[str]) -> list[Late]:
    """Episodes of ranks that are late because of these phases, in order of ranks and time; those
    that are at fault by themselves (`culprits`).
    """
    found = candidates(times, phases)
    lates = _with_cost(times, found.lates)
    return culprits(found.excess_RS, times.stage_R, lates, found.threshold_R)


def candidates(times: PhaseTimes, phases: Iterable[str]) -> Candidates:
    """All episodes of ranks that are late because of these phases."""
    reason_RS = np.sum([times.beyond_peers(name) for name in phases], axis=0)
    excess_RS = np.fmin(reason_RS, times.late_RS)
    excess_RS[~(np.isfinite(reason_RS) & np.isfinite(times.late_RS))] = np.nan
    threshold_R = _thresholds(times, times.late_RS, NOISE_MADS)
    lates = []
    for row, episode in _all_episodes(excess_RS, threshold_R):
        late = middle(times.late_RS[row, _span(episode)])
        if episode.excess >= MAIN_SHARE * late:
            least = float(threshold_R[row])
            lates.append(_late(excess_RS, row, episode, episode.excess, least))
    return Candidates(excess_RS, threshold_R, lates)


def lates_of(excess_RS: Floats, threshold_R: Floats) -> list[Late]:
    """All episodes of ranks beyond the threshold, whatever the excess is a share of."""
    return [
        _late(excess_RS, row, episode, episode.excess, float(threshold_R[row]))
        for row, episode in _all_episodes(excess_RS, threshold_R)
    ]


def late_by_one(times: PhaseTimes, phase: str, mads: float) -> list[Late]:
    """The same for one phase that is measured better than lateness is: steps vote by the phase
    alone, against `mads` MAD of it. What else a rank does meanwhile, on shared cores above all
    being kept from them, does not hide it; that it comes late is asked of the whole episode.
    """
    found = candidates_of_one(times, phase, mads)
    lates = _with_cost(times, found.lates)
    return culprits(found.excess_RS, times.stage_R, lates, found.threshold_R)


def partly_by_one(times: PhaseTimes, phase: str, mads: float) -> list[Late]:
    """Ranks that lose time in the phase as steadily as those, and less than MAIN_SHARE of what
    they come late by; `share`: what they lose in it.
    """
    reason_RS, threshold_R, found = _in_one_phase(times, phase, mads)
    lates = [
        _late(reason_RS, row, episode, episode.excess, MIN_EXCESS)
        for row, episode in found
        if episode.excess < MAIN_SHARE * middle(times.late_RS[row, _span(episode)])
    ]
    return culprits(reason_RS, times.stage_R, _with_cost(times, lates), threshold_R)


def candidates_of_one(times: PhaseTimes, phase: str, mads: float) -> Candidates:
    """All episodes of ranks that are late because of one phase."""
    reason_RS, threshold_R, found = _in_one_phase(times, phase, mads)
    lates = []
    for row, episode in found:
        late = middle(times.late_RS[row, _span(episode)])
        share = min(episode.excess, late)
        if share >= MAIN_SHARE * max(episode.excess, late):
            lates.append(_late(reason_RS, row, episode, share, MIN_EXCESS))
    return Candidates(reason_RS, threshold_R, lates)


def _in_one_phase(
    times: PhaseTimes, phase: str, mads: float
) -> tuple[Floats, Floats, Iterator[tuple[int, Episode]]]:
    """Excess of the ranks in a phase, their thresholds, and the episodes beyond these."""
    reason_RS = times.beyond_peers(phase)
    threshold_R = _thresholds(times, reason_RS, mads)
    return reason_RS, threshold_R, _all_episodes(reason_RS, threshold_R)


def _with_cost(times: PhaseTimes, lates: Iterable[Late]) -> list[Late]:
    """Where a phase may hide waiting, those since whom steps have been longer: a rank that has less
    of one phase and more of another has not come late if they have not.
    """
    if max(times.hidden.values(), default=0.0) < BORDER:
        return list(lates)
    return [late for late in lates if is_longer(times.window_S, late.episode, late.share)]


def is_longer(window_S: Floats, episode: Episode, share: float) -> bool:
    """Whether steps are longer than those before by a part of this share of a step; True where too
    few steps came before.
    """
    before_S = window_S[max(episode.first - _STEPS_BEFORE, 0) : episode.first]
    if np.isfinite(before_S).sum() < MIN_VOTES:
        return True
    just_S = before_S[-_JUST_BEFORE:]
    usual = min(float(np.nanmean(part)) for part in (before_S, just_S) if np.isfinite(part).any())
    longer = float(np.nanmean(window_S[_span(episode)])) / usual - 1
    return longer >= _LEAST_LONGER * share


def _all_episodes(excess_RS: Floats, threshold_R: Floats) -> Iterator[tuple[int, Episode]]:
    """Episodes of all ranks; those of one rank that follow each other at once are one."""
    for row in np.flatnonzero(may_be_slow(excess_RS, threshold_R)).tolist():
        apart: list[Episode] = []
        for episode in episodes(excess_RS[row], float(threshold_R[row])):
            if apart and episode.first - apart[-1].last <= OVER_AFTER_STEPS:
                first = apart.pop().first
                excess = middle(excess_RS[row, first : episode.last + 1])
                apart.append(Episode(first, episode.last, excess))
            else:
                apart.append(episode)
        yield from ((row, episode) for episode in apart)


def _late(excess_RS: Floats, row: int, episode: Episode, share: float, least: float) -> Late:
    excess_S = excess_RS[row, _span(episode)]
    return Late(row, episode, share, float((excess_S >= least).mean()), evenness(excess_S))


def evenness(excess_S: Floats) -> float:
    """What is exceeded in nine of ten steps, as a share of the median; 0 of nothing."""
    known_S = excess_S[np.isfinite(excess_S)]
    usual = float(np.median(known_S)) if known_S.size else 0.0
    return float(np.quantile(known_S, 1 - _NEARLY_ALL)) / usual if usual > 0 else 0.0


def culprits(
    excess_RS: Floats, stage_R: Ints, lates: Iterable[Late], threshold_R: Floats
) -> list[Late]:
    """Those that are steady, and than whom nobody but others of them comes later."""
    steady = [late for late in lates if late.is_steady]
    spans = [(late.row, late.episode.first, late.episode.last) for late in steady]
    steady = [steady[index] for index in sorted(no_swings(excess_RS, stage_R, spans))]
    if not is_calm(excess_RS, {late.row for late in steady}, threshold_R):
        steady = [late for late in steady if late.num_steps >= SHORT_STEPS]
    columns = [np.arange(late.episode.first, late.episode.last + 1) for late in steady]
    cells = list(zip([late.row for late in steady], columns, strict=True))
    last = last_shares(excess_RS, stage_R, cells)
    return not_moving([replace(steady[index], last=share) for index, share in last.items()])


def is_calm(excess_RS: Floats, accused: Collection[int], threshold_R: Floats) -> bool:
    """Whether the other ranks hardly ever stand out, by twice the threshold: else a short episode
    may be a swing.
    """
    others = [row for row in range(len(excess_RS)) if row not in accused]
    stands_out = np.nan_to_num(excess_RS[others]) >= 2 * threshold_R[others, None]
    return not stands_out.size or float(stands_out.mean()) <= _CALM


def lasting_or_calm(
    excess_NS: Floats, threshold_N: Floats, found: Sequence[tuple[int, Episode]]
) -> list[tuple[int, Episode]]:
    """Rows (of stages or hosts) and episodes without those of fewer than SHORT_STEPS, where the
    other rows stand out, too.
    """
    if is_calm(excess_NS, {row for row, _ in found}, threshold_N):
        return list(found)
    return [one for one in found if one[1].last - one[1].first + 1 >= SHORT_STEPS]


def not_moving(lates: Sequence[Late]) -> list[Late]:
    """Without short episodes where they move from rank to rank: so do the swings of a busy host."""
    short = [late for late in lates if late.num_steps < SHORT_STEPS]
    if len({late.row for late in short}) < FEWEST_MOVING or _at_once(short):
        return list(lates)
    return [late for late in lates if late not in short]


def _at_once(lates: Sequence[Late]) -> bool:
    """Whether they are late in the same steps: then they have a cause in common."""
    return all(meet(lates[0].episode, late.episode) for late in lates[1:])


def last_shares(
    excess_RS: Floats, stage_R: Ints, cells: Sequence[tuple[int, Ints]]
) -> dict[int, float]:
    """Of candidates, each a row and its columns, those than whom no other rank of the stage has
    more in LEAST_LAST of these columns: their index and that share.

    Other candidates of the same steps do not count, as long as they are not out themselves.
    """
    left = dict(enumerate(cells))
    while left:
        share = {
            index: _last(excess_RS, stage_R, cell, left.values()) for index, cell in left.items()
        }
        least = min(share, key=lambda index: share[index])
        if share[least] >= LEAST_LAST:
            return share
        del left[least]
    return {}


def _last(
    excess_RS: Floats,
    stage_R: Ints,
    cell: tuple[int, Ints],
    accused: Iterable[tuple[int, Ints]],
) -> float:
    row, columns = cell
    others_R = stage_R == stage_R[row]
    for other, its_columns in accused:
        if its_columns[0] <= columns[-1] and columns[0] <= its_columns[-1]:
            others_R[other] = False
    others_R[row] = False
    others_NS = np.nan_to_num(excess_RS[others_R][:, columns], nan=-np.inf)
    return float((excess_RS[row, columns] >= others_NS.max(axis=0, initial=-np.inf)).mean())


def meet(episode: Episode, other: Episode) -> bool:
    """Whether two episodes have a step in common."""
    return episode.first <= other.last and other.first <= episode.last


def _span(episode: Episode) -> slice:
    return slice(episode.first, episode.last + 1)


def worth_telling(times: PhaseTimes, lates: Sequence[Late]) -> tuple[list[Late], list[str]]:
    """Those that go on or took more time than MINOR of the worst, and sentences on the others."""
    newest = times.step_S.size - 1 - OVER_AFTER_STEPS
    spans = [late.span for late in lates]
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

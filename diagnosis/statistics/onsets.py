"""Since when all ranks of a job compute longer than they did before.

When: the median rank (diagnosis/statistics/episodes.py). Whether all: each rank against its own
steps before, and of these the tenth part that rose least, so that slow ranks, replicas and stages
are no rise. Communication, waiting, data, collections and checkpoints are no compute, and have
their own kinds.

Shape suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.findings import Evidence, Finding, NotEnoughData
from diagnosis.statistics.episodes import MIN_VOTES, Episode, episodes
from diagnosis.statistics.peers import level_before
from diagnosis.statistics.phase_findings import steps_missing
from diagnosis.statistics.phase_times import PhaseTimes, middle, middles
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.step_noise import step_noise
from diagnosis.statistics.units import in_ms

MIN_RISE = 0.05
"""Votes begin at this rise of compute and are full at twice it, where a job counts as straggling.
Runs on one machine differ by a few percent."""

SHARED_RISE = 0.25
"""The same where ranks wait for cores: equal work takes more CPU time when others use the same
caches."""

LEAST_RISEN = 0.1
"""Share of the ranks, those that rose least, by which the job is judged."""

WARM_UP_STEPS = 2
FEWEST_BEFORE = MIN_VOTES
"""Steps before a rise, warm-up left out: a level, not the first quick moments of a job."""


@dataclass(frozen=True)
class Onset:
    """Since when all ranks compute longer. `episode`: indices of the steps."""

    episode: Episode
    before_ms: float  # of the median rank, per step
    longer_ms: float


def not_comparable(name: str, times: PhaseTimes) -> tuple[NotEnoughData, ...]:
    """What is missing to compare the job with its own past."""
    if missing := steps_missing(name, times.step_S.size):
        return missing
    if times.waits_hidden:
        reason = "The log has no communication: compute that rose may be waiting for others."
        return (NotEnoughData(name, reason),)
    if not (np.nan_to_num(times.phases["compute"]) > 0).any():
        return (NotEnoughData(name, "No compute was recorded."),)
    return ()


def checked_text(times: PhaseTimes) -> str:
    """What was found in order."""
    excess_S = _excess(_work(times))
    border = MIN_RISE if excess_S is None else border_of(excess_S, MIN_RISE)
    return (
        f"The compute of the job as a whole did not rise by {100 * 2 * border:.0f} % at any step "
        f"from {times.step_S[0]} to {times.step_S[-1]}."
    )


def onsets(times: PhaseTimes, least: float = MIN_RISE) -> list[Onset]:
    """Episodes in which all ranks compute longer than in the steps before, by a share at least."""
    work_RS = _work(times)
    excess_S = _excess(work_RS)
    if excess_S is None:
        return []
    before_ms = level_before(middles(work_RS))
    lasting_onsets = []
    for episode in episodes(excess_S, border_of(excess_S, least)):
        if episode.first < FEWEST_BEFORE:
            continue
        risen = _risen_least(work_RS, episode)
        if risen >= least:
            first, last = episode.first + WARM_UP_STEPS, episode.last + WARM_UP_STEPS
            lasting_onsets.append(Onset(Episode(first, last, risen), before_ms, before_ms * risen))
    return lasting_onsets


def _work(times: PhaseTimes) -> Floats:
    """Compute of the ranks that have any, ms, without the warm-up."""
    work_RS = np.where(times.phases["compute"] > 0, times.phases["compute"], np.nan)
    known_RS: Floats = work_RS[np.isfinite(work_RS).any(axis=1), WARM_UP_STEPS:]
    return known_RS


def _excess(work_RS: Floats) -> Floats | None:
    """What the median rank computes beyond the level before; None where there is none."""
    job_S = middles(work_RS)
    before_ms = level_before(job_S)
    return job_S / before_ms - 1 if np.isfinite(before_ms) else None


def border_of(excess_S: Floats, least: float) -> float:
    """From which rise on steps vote: this share, or the noise where that is more."""
    return max(least, step_noise(excess_S))


def _risen_least(work_RS: Floats, episode: Episode) -> float:
    """By what share the ranks that rose least compute longer than before the episode."""
    ratios = [
        middle(row_S[episode.first : episode.last + 1]) / middle(row_S[: episode.first])
        for row_S in work_RS
    ]
    return float(np.nanquantile(ratios, LEAST_RISEN)) - 1


def wall_share(times: PhaseTimes, onset: Onset) -> float:
    """Share of a step by which it is longer for the rise: compute may be CPU time."""
    span = slice(onset.episode.first, onset.episode.last + 1)
    compute_RS, stretch_RS = (times.phases[name][:, span] for name in ("compute", "stretch"))
    per_work = middle((compute_RS + stretch_RS) / np.where(compute_RS > 0, compute_RS, np.nan))
    return min(onset.longer_ms * per_work / middle(times.window_S[span]), 1.0)


def evidence_of(times: PhaseTimes, onset: Onset, finding: Finding) -> Evidence:
    """How much compute all ranks have now and had before, medians over the steps."""
    begins, ends = onset.episode.first, onset.episode.last
    first = int(times.step_S[begins])
    job_S = middles(np.where(times.phases["compute"] > 0, times.phases["compute"], np.nan))
    before_ms, now_ms = middle(job_S[WARM_UP_STEPS:begins]), middle(job_S[begins : ends + 1])
    return Evidence(
        f"The compute of nine in ten ranks takes at least {1 + onset.episode.excess:.2f}x as long "
        f"as before step {first}: the median rank {in_ms(now_ms)} per step after "
        f"{in_ms(before_ms)}.",
        round(1 + onset.episode.excess, 4),
        "x",
        "rank_phases",
        finding.evidence[0].params,
        finding.evidence[0].view,
    )

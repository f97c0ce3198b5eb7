"""data_loader: steps stand still for their next batch, on one rank or on the whole job.

One rank: it is blocked on data longer than its peers, and over these steps comes late by at least
half of that (diagnosis/statistics/phase_times.py); later operations are normal, only shifted. The
whole job: the median rank is blocked for a fifth of the step, or for longer since some step than
before it; or ranks are in turn, and steps have become longer by it. Blocked time is EXPOSED fetch
wait, not fetch time, which hides behind compute.

Where workers were seen, the finding says which worker or source is slow and what it spends the time
with (diagnosis/loading/workers.py).

Source: MegaScale (2402.15627) on data stalls; a job that fetches ahead is blocked for next to
nothing. Assumes: a loader's wait is recorded as such. Known false positives: a rank that alone
loads for others and is meant to. Blind spots: a job that has always been blocked for less than a
fifth of its steps looks healthy without a baseline. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Finding, NotEnoughData, Verdict
from diagnosis.loading.explained import explained
from diagnosis.loading.workers import QUESTION, slow_everywhere, with_one_slow_worker
from diagnosis.statistics.episodes import MIN_VOTES, Episode, episodes
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.late_ranks import (
    LEAST_EVEN,
    MAIN_SHARE,
    Late,
    evenness,
    is_longer,
    late_by_one,
    meet,
    partly_by_one,
    worth_telling,
)
from diagnosis.statistics.peers import NOISE_MADS, level_before
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.step_levels import (
    CLEAR,
    FEWEST_STEPS,
    WARM_UP_STEPS,
    beyond_swings,
    longer_by,
    most_longer_by,
    takes_longer,
)
from diagnosis.statistics.step_noise import step_noise
from diagnosis.statistics.units import in_ms, steps_text

NAME = "data_loader"
KINDS = ("data_loader",)
QUESTIONS = ("rank_phases", "rank_places", QUESTION)

STARVED = 0.1
"""A step votes fully where a job is blocked for twice this share: a fifth of its time."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    data_RS = times.phases["data"]
    if times.hides("data"):
        reason = "The wait for data holds waiting for other ranks: whose loader is late is unknown."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    if not (data_RS > 0).any():
        reason = "No wait for data was recorded: a slow loader would show as host time only."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    lates, minor = worth_telling(times, late_by_one(times, "data", NOISE_MADS))
    of_ranks = _of_ranks(times, lates, attempt)
    of_ranks += _of_workers(times, of_ranks, tables, attempt)
    of_job, of_always = _of_job(times, data_RS, attempt)
    is_everywhere = slow_everywhere(tables) is not None
    if of_ranks and of_job and not is_everywhere and times.mirrored("data") >= BORDER:
        # the others may wait for that rank in the same timer
        of_job = [one for one in of_job if not any(_share_steps(one, rank) for rank in of_ranks)]
    named = of_job if is_everywhere else [*of_ranks, *of_job]
    of_job += _in_turn(times, data_RS, named, 1.0 if is_everywhere else _MOST_OF_ONE, attempt)
    if is_everywhere:
        of_ranks = [
            one for one in of_ranks if not any(_share_steps(one, other) for other in of_job)
        ]
    of_ranks, of_job = ([explained(one, tables) for one in some] for some in (of_ranks, of_job))
    partly = _partly(times, of_ranks)
    checked = (
        f"No {'other ' if of_ranks or partly else ''}rank waited for data longer than its peers, "
        "steadily and beyond what ranks swing by"
    )
    if not of_job:
        checked += "; the waits of the whole job stayed below a fifth of its time and did not grow"
    return Verdict(
        NAME, (*of_ranks, *of_job), f"{checked}.", set_aside=(*minor, *partly, *of_always)
    )


def _partly(times: PhaseTimes, of_ranks: list[Finding]) -> list[str]:
    """A sentence on each rank not named for it that waits for data and comes late by more else."""
    named = {place.rank for finding in of_ranks for place in finding.culprits}
    sentences = []
    for late in partly_by_one(times, "data", NOISE_MADS):
        rank = int(times.ranks.rank_R[late.row])
        if rank in named:
            continue
        first, last = (int(times.step_S[at]) for at in (late.episode.first, late.episode.last))
        ms = late.share * middle(times.window_S[late.span])
        sentences.append(
            f"Rank {rank} loses {in_ms(ms)} per step waiting for the next batch in "
            f"{steps_text(first, last)}: less than half of what it comes late by."
        )
    return sentences


def _of_ranks(times: PhaseTimes, lates: list[Late], attempt: int) -> list[Finding]:
    findings = []
    for late in lates:
        lost = Lost((late.row,), late.episode, late.share, late.row, late=late)
        words = _words(f"Rank {times.ranks.rank_R[late.row]} waits for its data")
        findings.append(finding_of(times, lost, attempt, words))
    return findings


def _of_workers(
    times: PhaseTimes, named: list[Finding], tables: Mapping[str, pa.Table], attempt: int
) -> list[Finding]:
    """Ranks of which one worker is slow wait in one step of as many as there are workers: their
    waits are averaged over so many steps.
    """
    known = {place.rank for finding in named for place in finding.culprits}
    beyond_RS = np.nan_to_num(times.beyond_peers("data"))
    waits_R = np.clip(beyond_RS, 0.0, None).sum(axis=1) >= MIN_VOTES * MIN_EXCESS
    row_of = {int(times.ranks.rank_R[row]): int(row) for row in np.flatnonzero(waits_R)}
    findings = []
    for rank, num_workers in with_one_slow_worker(tables, row_of.keys() - known).items():
        row = row_of[rank]
        if num_workers > times.step_S.size:
            continue
        share_S = np.convolve(beyond_RS[row], np.ones(num_workers) / num_workers, mode="same")
        words = _words(f"Rank {rank} waits for its data")
        findings += [
            finding_of(times, Lost((row,), episode, episode.excess, row), attempt, words)
            for episode in episodes(share_S, MIN_EXCESS)
        ]
    return findings


def _of_job(
    times: PhaseTimes, data_RS: Floats, attempt: int
) -> tuple[list[Finding], tuple[str, ...]]:
    """Episodes in which all ranks that load are blocked: the wait of the one that waits least, as
    what others wait beyond it may be for other ranks. Sentences on those that have always been so
    while either data or the rest of the step holds waiting for ranks.
    """
    share_RS = data_RS / times.window_S
    loading = np.nanmedian(share_RS, axis=1) > 0
    if not loading.any():
        return [], ()
    share_S = np.fmin.reduce(share_RS[loading], axis=0)
    before = level_before(share_S + _NEXT_TO_NOTHING) - _NEXT_TO_NOTHING
    if not np.isfinite(before):
        before = 0.0
    risen_S = share_S - before
    starved = [
        (e, e.excess)
        for e in episodes(share_S, STARVED)
        if e.excess >= 2 * STARVED and evenness(share_S[e.first : e.last + 1]) >= LEAST_EVEN
    ]
    risen = episodes(risen_S, max(step_noise(share_S), MIN_EXCESS))
    for episode in risen:
        is_new = not any(meet(episode, other) for other, _ in starved)
        even = evenness(risen_S[episode.first : episode.last + 1]) >= LEAST_EVEN
        if is_new and even and _makes_steps_longer(times, episode, risen):
            starved.append((episode, episode.excess))
    always = [(e, share) for e, share in starved if e.first <= WARM_UP_STEPS]
    if always and times.mirrored("data") >= BORDER:
        starved = [one for one in starved if one not in always]
    else:
        always = []
    worst = int(np.nanargmax(np.nanmedian(share_RS, axis=1)))
    words = replace(_words("The job waits for its data"), confidence="medium")
    findings = [
        finding_of(times, Lost((), episode, share, worst), attempt, words)
        for episode, share in starved
    ]
    return findings, tuple(_ALWAYS.format(share=100 * share) for _, share in always)


_ALWAYS = (
    "Each step spends {share:.0f} % in its wait for data from the first steps on; ranks wait for "
    "each other there or in another timer, so that it may be the time of the rank that comes last."
)


_NEXT_TO_NOTHING = 1e-4


def _makes_steps_longer(times: PhaseTimes, episode: Episode, risen: list[Episode]) -> bool:
    """Whether steps are longer than those before without such waits, or by half of the wait:
    few steps, and many beyond what as many swing by.
    """
    first, last = episode.first - WARM_UP_STEPS, episode.last - WARM_UP_STEPS
    if first <= 0 or not is_longer(times.window_S, episode, episode.excess):
        return False
    window_S = times.window_S.copy()
    for earlier in risen:
        if earlier.last < episode.first:
            window_S[earlier.first : earlier.last + 1] = np.nan
    window_S = window_S[WARM_UP_STEPS:]
    longer = min(by(window_S, first, last) for by in (longer_by, most_longer_by))
    is_by_it = longer >= MAIN_SHARE * episode.excess
    if last - first + 1 < FEWEST_STEPS:
        return is_by_it
    is_clear = beyond_swings(window_S, first, last) >= CLEAR
    return takes_longer(window_S, first, last) or (is_by_it and is_clear)


def _in_turn(
    times: PhaseTimes, data_RS: Floats, named: list[Finding], most: float, attempt: int
) -> list[Finding]:
    """Episodes in which ranks are blocked in turn, and steps are longer for it: all loaders deliver
    too little, and those of the ranks that wait for the blocked one catch up meanwhile. None that
    share steps with those `named`, or of which one rank has a greater share than `most`.
    """
    share_RS = data_RS / times.window_S
    if len(share_RS) < _FEWEST_IN_TURN or not np.isfinite(share_RS).any(axis=0).all():
        return []
    longest_S = np.nanmax(share_RS, axis=0)
    smooth_S = np.convolve(longest_S, np.ones(_TOGETHER) / _TOGETHER, mode="same")
    found = []
    for episode in episodes(smooth_S, STARVED):
        span = slice(episode.first, episode.last + 1)
        lost = float(longest_S[span].mean())
        by_rank_R = np.bincount(np.nanargmax(share_RS[:, span], axis=0), longest_S[span])
        takes = float(times.window_S[span].mean())
        before_S = times.window_S[WARM_UP_STEPS : max(episode.first, WARM_UP_STEPS)]
        longer = takes / float(before_S.mean()) - 1 if before_S.size >= MIN_VOTES else 0.0
        is_one = by_rank_R.max() > most * by_rank_R.sum()
        is_often = (longest_S[span] >= STARVED).sum() >= MIN_VOTES
        if not is_one and is_often and lost >= 2 * STARVED and longer >= lost / 2:
            worst = int(by_rank_R.argmax())
            words = replace(_words("The job waits for its data"), confidence="medium")
            mean_ms = float(np.nanmax(data_RS[:, span], axis=0).mean())
            share = mean_ms / middle(times.window_S[span])
            found.append(finding_of(times, Lost((), episode, share, worst), attempt, words))
    return [one for one in found if not any(_share_steps(one, other) for other in named)]


_FEWEST_IN_TURN = 3
_TOGETHER = 8
"""Steps that are looked at together: not each of them has a rank that waits."""

_MOST_OF_ONE = 0.6
"""Of the waiting, on one rank: it would be that rank's loader."""


def _share_steps(one: Finding, other: Finding) -> bool:
    return one.first_step <= other.last_step and other.first_step <= one.last_step


def _words(title: str) -> Words:
    return Words(
        "data_loader",
        title,
        "waiting for the next batch",
        f"{title}: the loader does not deliver in time, what comes after is only shifted.",
        (
            "Slow storage or network below the loader, a slow source of the mixture, or too few "
            "workers: waiting time does not distinguish them.",
            "Other processes on the host (host contention) that keep the loader from its cores.",
        ),
        "Look at the loader: number of workers, prefetching, CPU of the host, read rate of the "
        "storage; time one worker by itself.",
        past=title.replace(" waits ", " waited "),
    )

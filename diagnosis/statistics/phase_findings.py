"""Findings on ranks, or on the whole job, that lose a share of each step to one phase."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diagnosis.findings import CONFIDENCES, Evidence, Finding, NotEnoughData, cost_of
from diagnosis.statistics.episodes import MIN_VOTES, OVER_AFTER_STEPS, Episode
from diagnosis.statistics.evidence_links import first_two, pipeline_view, question_params
from diagnosis.statistics.late_ranks import Late
from diagnosis.statistics.phase_times import PhaseTimes, middle
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.units import in_ms, steps_text, when_text

URGENT_SHARE = 0.1
"""Jobs at least 1.1 times as long as without stragglers count as straggling (2505.05713)."""


@dataclass(frozen=True)
class Words:
    """The texts of one kind of finding. `loses`: completes "Rank 5 loses 12 ms per step ..." and
    "Each step loses 12 ms ...". `past`: the title once it is over, where `title` says it now.
    """

    kind: str
    title: str
    loses: str
    cause: str
    alternatives: tuple[str, ...]
    next_step: str
    question: str = "rank_phases"
    confidence: str = "high"
    past: str = ""


@dataclass(frozen=True)
class Lost:
    """What is lost: rows of the ranks at fault (none: no rank by itself), since when, how much."""

    rows: tuple[int, ...]
    episode: Episode
    share: float  # of a step
    shown_row: int  # whose lanes show it
    hosts: tuple[str, ...] = ()
    late: Late | None = None  # of one rank: how steady and how often last


def finding_of(times: PhaseTimes, lost: Lost, attempt: int, words: Words) -> Finding:
    """The finding of one episode."""
    episode, ranks = lost.episode, times.ranks
    first, last = int(times.step_S[episode.first]), int(times.step_S[episode.last])
    ongoing = times.step_S.size - 1 - episode.last < OVER_AFTER_STEPS
    step_ms = middle(times.window_S[episode.first : episode.last + 1])
    lost_ms = lost.share * step_ms
    confidence = _confidence(times, lost, words)
    urgent = lost.share >= URGENT_SHARE and confidence != "low"
    since = when_text(first, last, ongoing)
    return Finding(
        kind=words.kind,
        attempt=attempt,
        severity=("urgent" if urgent else "warning") if ongoing else "past",
        confidence=confidence,
        title=words.title if ongoing else words.past or words.title,
        text=f"{_who_loses(times, lost, ongoing)} time {words.loses.removeprefix(_MEAN)} {since}.",
        culprits=tuple(place_of(ranks, row) for row in lost.rows),
        victims=_victims(times, lost),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        cost=cost_of(lost_ms, step_ms, last - first + 1, ranks.world_size),
        evidence=_evidence(times, lost, attempt, words, lost_ms),
        alternatives=words.alternatives,
        next_step=words.next_step,
        hosts=lost.hosts,
        cause=words.cause,
    )


def _confidence(times: PhaseTimes, lost: Lost, words: Words) -> str:
    """At most that of the kind; of a single rank's lateness what its signs give."""
    if lost.late is not None:
        given = lost.late.confidence(times)
        return max(given, words.confidence, key=CONFIDENCES.index)
    return words.confidence if times.ranks.has_roles or not lost.rows else "medium"


def steps_missing(name: str, num_steps: int) -> tuple[NotEnoughData, ...]:
    """What is missing where fewer steps than needed are finished; nothing else."""
    if num_steps >= MIN_VOTES:
        return ()
    reason = f"{num_steps} finished step{'s are' if num_steps != 1 else ' is'} too few: at least"
    return (NotEnoughData(name, f"{reason} {MIN_VOTES:.0f} are needed."),)


_MEAN = "on average "


def _loss(times: PhaseTimes, lost: Lost, lost_ms: float) -> str:
    """Who loses how much. Only evidence says it: the cost of the finding is measured on steps."""
    per_step = " per step" if lost.hosts or lost.rows else ""
    return f"{_who_loses(times, lost)} {in_ms(lost_ms)}{per_step}"


def _who_loses(times: PhaseTimes, lost: Lost, ongoing: bool = True) -> str:
    """The ranks at fault, or each step where no rank is; of what is over: who lost."""
    named = [str(times.ranks.rank_R[row]) for row in lost.rows]
    lose, loses = ("lose", "loses") if ongoing else ("lost", "lost")
    if lost.hosts:
        return f"All ranks of {', '.join(lost.hosts)} {lose}"
    if not named:
        return f"Each step {loses}"
    return f"Rank {named[0]} {loses}" if len(named) == 1 else f"Ranks {', '.join(named)} {lose}"


def _victims(times: PhaseTimes, lost: Lost) -> tuple[int, ...]:
    if not lost.rows:
        return ()
    stage_R = times.stage_R == times.stage_R[lost.rows[0]]
    stage_R[list(lost.rows)] = False
    return tuple(times.ranks.rank_R[stage_R].tolist())


def _evidence(
    times: PhaseTimes, lost: Lost, attempt: int, words: Words, lost_ms: float
) -> tuple[Evidence, ...]:
    episode = lost.episode
    first, last = int(times.step_S[episode.first]), int(times.step_S[episode.last])
    params = question_params(first, last, attempt)
    link = pipeline_view(times.ranks, lost.shown_row, attempt, first_two(first, last))
    whose = "their" if lost.hosts or len(lost.rows) > 1 else "its"
    against = f", more than the median of {whose} peers," if lost.rows else ""
    evidence = [
        Evidence(
            f"{_loss(times, lost, lost_ms)} {words.loses}{against} in {steps_text(first, last)}.",
            round(lost_ms, 3),
            "ms per step",
            words.question,
            params,
            link,
        ),
    ]
    if lost.late is not None:
        of_steps = round(lost.late.last, 4)
        evidence.append(
            Evidence(lost.late.signs, of_steps, "of steps", words.question, params, link)
        )
    if lost.rows and episode.first > 0:
        before = middle(times.late_RS[lost.rows[0], : episode.first])
        if math.isfinite(before):
            evidence.append(
                Evidence(
                    f"Before step {first} rank {times.ranks.rank_R[lost.rows[0]]} came "
                    f"{_when(before)}.",
                    round(before, 4),
                    "share",
                    words.question,
                    question_params(int(times.step_S[0]), first - 1, attempt),
                    link,
                )
            )
    return tuple(evidence)


def _when(late: float) -> str:
    """When a rank came, by the share of a step by which it was later than its peers."""
    percent = round(100 * abs(late), 1)
    if not percent:
        return "when its peers did"
    return f"{percent:.1f} % of a step {'later' if late > 0 else 'earlier'} than its peers"

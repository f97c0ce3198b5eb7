"""launch_skew: a different rank is late in each step, and none is slow in compute, data or
collections.

In each step the rank that spends most time beyond its peers outside of all recorded phases leads
(diagnosis/statistics/phase_times.py); the job pays for that rank. Where the leader alternates and
the lead has grown since some step, and steps are longer for it, hosts launch unevenly. One rank
that leads in most steps is a finding of launch_skew.py.

Signs: step time up, compute and bandwidth stable, the skew of starts grows, the leader alternates.
Source: the rule is ours. Assumes: phases are recorded, so that
the rest is host code. Known false positives: work that ranks do in turns on purpose and that no
span shows. Blind spots: a skew that was always there, which may be usual; jobs of fewer
than 4 ranks; logs without communication. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.findings import Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import MIN_VOTES, Episode, episodes
from diagnosis.statistics.late_ranks import LEAST_EVEN, STEADY_SHARE, evenness
from diagnosis.statistics.peers import level_before
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, comparable, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.step_levels import is_longer_by
from diagnosis.statistics.step_noise import step_noise

NAME = "rotating_skew"
KINDS = ("launch_skew",)
QUESTIONS = ("rank_phases", "rank_places")

MOST_OF_ONE = 0.5
"""A rank that leads in more of the steps is one rank's fault."""

FEWEST_LEADERS = 3

FEWEST_IN_TURN = 8
"""In fewer steps, single swings of a busy host look like ranks that take turns."""

LEAST_LONGER = 0.25
"""Of the lead, by which steps are longer than those before: they may have had leaders, too."""

_CLOSE = 0.5

_NEXT_TO_NOTHING = 1e-4


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    if not comparable(times) or times.waits_hidden:
        reason = "Fewer than 4 ranks, or no communication in the log: who starts late is not known."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    leader_S = _leads(_rest(times))[1]
    findings = tuple(_finding(times, episode, leader_S, attempt) for episode in moving(times))
    checked = (
        f"No {'other ' if findings else ''}rotating launch skew above 6 % of a step for "
        f"{FEWEST_IN_TURN} steps or more."
    )
    return Verdict(NAME, findings, checked)


def moving(times: PhaseTimes) -> list[Episode]:
    """Steps in which a different rank leads each time; those of comparable ranks whose waits are
    known.
    """
    rest_RS = _rest(times)
    lead_S, leader_S = _leads(rest_RS)
    return [
        episode
        for episode in _episodes(lead_S)
        if episode.last - episode.first + 1 >= FEWEST_IN_TURN
        and _moves(rest_RS, lead_S, leader_S, episode)
        and evenness(lead_S[episode.first : episode.last + 1]) >= LEAST_EVEN
        and episode.first >= MIN_VOTES  # of what has always been so, nobody knows the usual
        and is_longer_by(times.window_S, episode, LEAST_LONGER * episode.excess)
    ]


def _rest(times: PhaseTimes) -> Floats:
    """What ranks spend beyond their peers outside of phases; what a wait for data, a collection or
    a save of the same step brings with it (objects made, cold caches) is of their kinds.
    """
    rest_RS = np.fmin(times.beyond_peers("rest"), times.late_RS)
    named_RS = np.sum([times.beyond_peers(name) for name in ("data", "gc", "checkpoint")], axis=0)
    return np.where(named_RS >= rest_RS, 0.0, rest_RS)


def _leads(rest_RS: Floats) -> tuple[Floats, Ints]:
    """The greatest time beyond the peers of each step, share of it, and whose it is."""
    known_RS = np.where(np.isfinite(rest_RS), rest_RS, -np.inf)
    lead_S = known_RS.max(axis=0)
    return np.where(np.isfinite(lead_S), np.maximum(lead_S, 0.0), np.nan), known_RS.argmax(axis=0)


def _episodes(lead_S: Floats) -> list[Episode]:
    """Where the lead has grown."""
    before = level_before(lead_S + _NEXT_TO_NOTHING) - _NEXT_TO_NOTHING
    grown_S = lead_S - (before if np.isfinite(before) else 0.0)
    return episodes(grown_S, max(step_noise(lead_S), MIN_EXCESS))


def _moves(rest_RS: Floats, lead_S: Floats, leader_S: Ints, episode: Episode) -> bool:
    """Whether no rank leads in most steps, nor is close to the lead in nearly all."""
    span = slice(episode.first, episode.last + 1)
    counts = np.unique(leader_S[span], return_counts=True)[1]
    beyond_R = (rest_RS[:, span] >= _CLOSE * lead_S[span]).mean(axis=1)
    alternates = counts.size >= FEWEST_LEADERS and counts.max() <= MOST_OF_ONE * counts.sum()
    return bool(alternates and beyond_R.max() < STEADY_SHARE)


def _finding(times: PhaseTimes, episode: Episode, leader_S: Ints, attempt: int) -> Finding:
    leaders = leader_S[episode.first : episode.last + 1]
    lost = Lost((), episode, episode.excess, int(leaders[0]))
    return finding_of(times, lost, attempt, _words(np.unique(leaders).size))


def _words(num_leaders: int) -> Words:
    return Words(
        "launch_skew",
        "A different rank starts late in each step",
        "to the rank that starts last, a different one each time",
        f"{num_leaders} ranks in turn come last with as much compute and data as their peers: "
        "hosts launch unevenly.",
        (
            "Locks, logging or synchronous copies of the host between operations: only stacks "
            "distinguish them.",
            "Other processes on the hosts (host contention) or garbage collections that were not "
            "recorded.",
        ),
        "Sample the stacks of some ranks between backward and the reduction of gradients, and look "
        "for what runs there on the host; collect garbage on all ranks in the same step.",
        confidence="medium",
    )

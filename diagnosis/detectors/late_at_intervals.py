"""data_loader, slow_worker, launch_skew: one rank comes late in one step of so many, since a step.

In steps a fixed distance apart a rank spends longer in one phase than its peers, and these steps
are longer: something of its own comes round there. What any busy host does comes at no distance, so
that few such steps are enough, however little they cost.

Source: the rule is ours. Known false positives: work that one rank does for all and begins within
the run, such as logging from some step on. Blind spots: every second step, which is how two
processes share cores; what came round from the first steps on, which may be that rank's share; a
phase that holds waiting. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.detectors.jit_spikes import MOST_REGULAR
from diagnosis.findings import Finding, Verdict
from diagnosis.loading.explained import explained
from diagnosis.loading.workers import QUESTION
from diagnosis.statistics.episodes import FEWEST_HITS, Episode
from diagnosis.statistics.late_ranks import MAIN_SHARE
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_findings import Lost, Words, finding_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, comparable, middle, phase_times
from diagnosis.statistics.rank_tables import Ints
from diagnosis.statistics.step_levels import longer_than_between
from diagnosis.statistics.units import named_ranks

NAME = "late_at_intervals"
KINDS = ("data_loader", "slow_worker", "launch_skew")
QUESTIONS = ("rank_phases", "rank_places", QUESTION)

LEAST_PERIOD, MISSED_BEFORE = 3, 2
"""It is news where it did not come twice before when it would have been due."""

_REASONS = ("data", "compute", "stretch", "rest")
_KIND = {"data": "data_loader", "compute": "slow_worker"}
_LOSES = {
    "data": "waiting for the next batch",
    "compute": "longer compute",
    "stretch": "standing still in the middle of its operations",
    "rest": "time outside of its recorded phases",
}


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where ranks have no peers."""
    times = phase_times(tables)
    if not comparable(times):
        return None
    findings = [
        explained(_finding(times, row, reason, at, attempt), tables)
        for reason in _REASONS
        if not times.hides(reason)
        for row, at in _regular(times, reason).items()
    ]
    checked = (
        "No rank has come late in one step of so many, a fixed distance apart, since some step of "
        "the run."
    )
    return Verdict(NAME, tuple(findings), None if findings else checked)


def _regular(times: PhaseTimes, reason: str) -> dict[int, Ints]:
    """Columns in which a rank is late for one reason, a fixed distance apart, by row."""
    excess_RS = np.nan_to_num(times.beyond_peers(reason))
    least_R = np.empty(len(excess_RS))
    for stage in np.unique(times.stage_R):
        of_stage = times.stage_R == stage
        least_R[of_stage] = 2 * max(NOISE_MADS * middle(np.abs(excess_RS[of_stage])), MIN_EXCESS)
    is_late_RS = excess_RS >= least_R[:, None]
    found, cells = {}, is_late_RS.size
    for row in np.flatnonzero(is_late_RS.sum(axis=1) >= FEWEST_HITS).tolist():
        at = np.flatnonzero(is_late_RS[row])
        due = _due(at)
        others = (at.size - due.size + 1) / is_late_RS.shape[1]
        is_chance = cells * is_late_RS.shape[1] * others ** (due.size - 1) > _CHANCE
        if (
            due.size
            and not is_chance
            and _is_worth_telling(times, row, due, excess_RS[row, due].mean())
        ):
            found[row] = due
    return found


_CHANCE = 1e-3
"""That any rank's late steps lie so by chance, at any place and distance."""


def _due(at: Ints) -> Ints:
    """The most of them that lie one distance apart, few others between and few missing; none where
    they are too few, or came as often before.
    """
    best = at[:0]
    for period in np.unique(np.diff(at)).tolist():
        if period < LEAST_PERIOD or (at[-1] - at[0]) // period < FEWEST_HITS - 1:
            continue
        for place in np.unique(at % period):
            of_place = at[at % period == place]
            runs = np.split(of_place, 1 + np.flatnonzero(np.diff(of_place) > 2 * period))
            due = max(runs, key=len)
            others = np.count_nonzero((at >= due[0]) & (at <= due[-1]))
            num_due = 1 + (due[-1] - due[0]) // period
            if due.size > best.size and due.size >= MOST_REGULAR * max(others, num_due):
                best = due if due[0] >= MISSED_BEFORE * period else best
    return best if best.size >= FEWEST_HITS else at[:0]


def _is_worth_telling(times: PhaseTimes, row: int, due: Ints, excess: float) -> bool:
    """Whether the rank comes late by that in these steps, and they are longer for it."""
    late = middle(times.late_RS[row, due])
    return bool(late >= MAIN_SHARE * excess) and longer_than_between(times.window_S, due)


def _finding(times: PhaseTimes, row: int, reason: str, due: Ints, attempt: int) -> Finding:
    first, last, period = int(due[0]), int(due[-1]), int(np.median(np.diff(due)))
    apart = int(np.median(np.diff(times.step_S[due])))  # numbers may be left out
    if times.step_S.size - 1 - last < period:
        last = times.step_S.size - 1  # the next one is not due yet
    lost_ms = float((times.beyond_peers(reason)[row, due] * times.window_S[due]).sum())
    lost = lost_ms / float(np.nansum(times.window_S[first : last + 1]))
    what = Lost((row,), Episode(first, last, lost), lost, row)
    return finding_of(times, what, attempt, _words(times, row, reason, apart))


def _words(times: PhaseTimes, row: int, reason: str, period: int) -> Words:
    who = named_ranks([int(times.ranks.rank_R[row])])
    title = f"{who[0].upper()}{who[1:]} comes late in one step of {period}"
    return Words(
        _KIND.get(reason, "slow_worker" if times.waits_hidden else "launch_skew"),
        title,
        f"on average to {_LOSES[reason]} in one step of {period}",
        f"{title}, and the others wait: something of its own comes round there.",
        (
            "Work that this rank alone does every so many steps (logging, saving, evaluation).",
            "Pauses that were not recorded as what they are: garbage collections, allocator "
            "stalls, other processes on its host.",
        ),
        f"Look at what this rank does every {period} steps and its peers do not.",
        confidence="medium",
    )

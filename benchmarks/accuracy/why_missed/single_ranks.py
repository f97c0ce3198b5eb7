"""How far a rank gets on the way to being named."""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy.why_missed.miss import Miss, longer, percent
from diagnosis.detectors import launch_skew
from diagnosis.statistics import late_ranks
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.late_ranks import Candidates, Late
from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import NOISE_MADS, noises, peers_of, slowdowns, work_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle
from diagnosis.statistics.swings import LEAST_APART, LEAST_BEYOND, no_swings

STANDING_STILL = ("stretch", "rest")
"""Phases in which a rank stands still."""
_WORDS = {("data",): "its wait for data", STANDING_STILL: "standing still"}


def slow_rank(miss: Miss) -> str:
    """Compute of a rank against its peers, as slow_worker compares it."""
    work = own_work(work_of(miss.tables))
    column_N = miss.columns_of(work.step_S)
    rows = np.flatnonzero(np.isin(work.ranks.rank_R, miss.label.ranks))
    if not rows.size or not column_N.size:
        return "Its rank has no compute in these steps."
    if miss.times.waits_hidden and work.measure != "forward":
        return f"Compute holds waiting for other ranks. {late_rank(miss, STANDING_STILL)}"
    peers = peers_of(work.ranks)
    trusted_R = ~np.isin(work.ranks.rank_R, miss.label.ranks)
    slow_RS = slowdowns(work, peers, trusted_R)
    noise_R = noises(slow_RS, peers, trusted_R)
    row = min(rows.tolist(), key=lambda row: middle(slow_RS[row, column_N]))
    excess_N = slow_RS[row, column_N] - 1
    if not np.isfinite(excess_N).any():
        return f"Rank {work.ranks.rank_R[row]} has too few peers, and too short a past."
    text = (
        f"Rank {work.ranks.rank_R[row]} takes {longer(middle(excess_N))} for its {work.measure} "
        f"time than its peers ({peers.whom_R[row]}); a step counts from "
        f"{percent(max(float(np.nan_to_num(noise_R[row])), MIN_EXCESS))} on, fully from twice that"
    )
    even = late_ranks.evenness(excess_N)
    if even < late_ranks.LEAST_EVEN:
        asked = percent(late_ranks.LEAST_EVEN)
        return f"{text}. In nine of ten steps it does by {percent(even)} of that ({asked} asked)."
    span = (row, int(column_N[0]), int(column_N[-1]))
    if not no_swings(slow_RS - 1, peers.group_R, [span]):
        return f"{text}. {_SWINGS}."
    return f"{text}."


_SWINGS = (
    f"That is less than {LEAST_BEYOND:g} times what ranks usually swing by over as many steps, or "
    f"{LEAST_APART:g} times what any of them does"
)


def late_rank(miss: Miss, phases: tuple[str, ...]) -> str:
    """How far a rank gets on the way to being named: the one that shows least."""
    if not miss.rows.size:
        return "Its rank has no step of these."
    if phases == ("data",):
        found = late_ranks.candidates_of_one(miss.times, "data", NOISE_MADS)
    else:
        found = late_ranks.candidates(miss.times, phases)
    row = min(miss.rows.tolist(), key=lambda row: np.nan_to_num(miss.now(found.excess_RS[row])))
    return _late(miss, found, row, phases)


def _late(miss: Miss, found: Candidates, row: int, phases: tuple[str, ...]) -> str:
    times = miss.times
    who = f"Rank {times.ranks.rank_R[row]}"
    late = miss.now(times.late_RS[row])
    if not np.isfinite(late):
        return f"{who} has too few peers to be late against."
    share = miss.now(found.excess_RS[row])
    text = (
        f"{who} comes late by {percent(late)} of a step, by {percent(share)} for {_WORDS[phases]}"
    )
    own = [
        one
        for one in found.lates
        if one.row == row and miss.acts_in(one.episode.first, one.episode.last)
    ]
    if not own:
        border = percent(float(found.threshold_R[row]))
        return f"{text}; a step counts from {border} on, fully from twice that."
    worst = max(own, key=lambda one: one.num_steps)
    steps = f"{times.step_S[worst.episode.first]} to {times.step_S[worst.episode.last]}"
    return f"{text}. In steps {steps}: {_held_back(times, found, worst, phases)}."


def _held_back(times: PhaseTimes, found: Candidates, late: Late, phases: tuple[str, ...]) -> str:
    """The first condition of a culprit that it does not meet."""
    if late.steady < late_ranks.STEADY_SHARE:
        asked = percent(late_ranks.STEADY_SHARE)
        return f"it is late in {percent(late.steady)} of them ({asked} asked)"
    if late.even < late_ranks.LEAST_EVEN:
        asked = percent(late_ranks.LEAST_EVEN)
        return f"in nine of ten by {percent(late.even)} of the usual or more ({asked} asked)"
    span = (late.row, late.episode.first, late.episode.last)
    if not no_swings(found.excess_RS, times.stage_R, [span]):
        return _SWINGS[0].lower() + _SWINGS[1:]
    if late.num_steps < late_ranks.SHORT_STEPS and not late_ranks.is_calm(
        found.excess_RS, {late.row}, found.threshold_R
    ):
        return f"{late.num_steps} steps are few in a job in which other ranks stand out, too"
    columns = np.arange(late.episode.first, late.episode.last + 1)
    if not late_ranks.last_shares(found.excess_RS, times.stage_R, [(late.row, columns)]):
        asked = percent(late_ranks.LEAST_LAST)
        return f"it is not the last in {asked} of them"
    hides = max(times.hidden.values(), default=0.0) >= BORDER
    if hides and not late_ranks.is_longer(times.window_S, late.episode, late.share):
        return "steps are not longer than before by a quarter of what it is late by"
    if phases == STANDING_STILL:
        if late.share < launch_skew.LEAST_SHARE:
            return f"{percent(launch_skew.LEAST_SHARE)} are asked of standing still"
        compute = middle(times.beyond_peers("compute")[late.row, late.span])
        if compute > launch_skew.MOST_COMPUTE * late.share:
            return f"it computes longer by {percent(compute)} of a step, too"
    return "alone it would be named; other ranks that come late in the same steps keep it from that"

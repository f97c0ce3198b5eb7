"""What detectors compare that name no single rank: steps, compute, data, saves, stages."""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy.why_missed.miss import FROM_THE_FIRST, Miss, longer, percent
from diagnosis.detectors import rotating_skew, slow_op
from diagnosis.detectors.data_loader import STARVED
from diagnosis.detectors.jit_spikes import APART, FEWEST
from diagnosis.detectors.slow_checkpoint import FEWEST_TO_NAME, LEAST_SHARE, LONGER, MOST_SHARE
from diagnosis.detectors.slow_stage import LEAST_MEDIAN, MIN_STAGE_EXCESS
from diagnosis.statistics import late_ranks, onsets, step_levels
from diagnosis.statistics.onsets import border_of
from diagnosis.statistics.peers import work_of
from diagnosis.statistics.phase_times import MIN_EXCESS, middle, middles
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.spike_measures import MIN_SPIKE, least_spike
from sample_traces.generate.faults import EVERY_STEPS

_OTHER_KINDS = ("data", "gc", "checkpoint")
"""Phases that have kinds of their own."""


def whole_job(miss: Miss) -> str:
    """Steps against those before."""
    begin = step_levels.WARM_UP_STEPS
    known_S = miss.times.window_S[begin:]
    first, last = int(miss.column_N[0]) - begin, int(miss.column_N[-1]) - begin
    if first < 1:
        return FROM_THE_FIRST
    text = f"{steps_longer(known_S, first, last)}; asked are"
    if last - first + 1 < step_levels.FEWEST_STEPS:
        text += (
            f" {percent(step_levels.SHORT_RISE)}, or {percent(step_levels.LEAST_RISE)} and "
            f"{step_levels.CLEAR:g} times the swing, as there are fewer than "
            f"{step_levels.FEWEST_STEPS} steps"
        )
    else:
        text += (
            f" {percent(2 * step_levels.LEAST_RISE)}, or {percent(step_levels.LEAST_RISE)} and "
            f"{step_levels.CLEAR_FOR_LONG:g} times the swing"
        )
    fewest = step_levels.fewest_before(known_S.size)
    short = f" Only {first} steps came before it; {fewest} are asked." if first < fewest else ""
    return f"{text}.{short}"


def steps_longer(known_S: Floats, first: int, last: int) -> str:
    mean = step_levels.longer_by(known_S, first, last)
    most = step_levels.most_longer_by(known_S, first, last)
    swings = step_levels.beyond_swings(known_S, first, last)
    beyond = f"{swings:.1f} times the usual swing of as many steps"
    if not np.isfinite(swings):
        beyond = "their swing is not known"
    return (
        f"Its {last - first + 1} steps are {longer(mean)} than the {first} before them (the "
        f"median step {longer(most)}; {beyond})"
    )


def longer_compute(miss: Miss, least: float) -> str:
    """Compute of all ranks against their own past; what is seen, and why it is no finding."""
    if not miss.before_N.size:
        return FROM_THE_FIRST
    times = miss.times
    compute_S = middles(times.phases["compute"])
    share_S = compute_S / middle(compute_S[miss.before_N])
    text = (
        f"The median rank computes {longer(miss.risen(share_S))} than in the "
        f"{miss.before_N.size} steps before; a step counts from "
        f"{percent(border_of(share_S, least))} on"
    )
    found = [
        onset
        for onset in onsets.onsets(times, least)
        if miss.acts_in(onset.episode.first, onset.episode.last)
    ]
    if not found:
        return f"{text}, fully from twice that."
    onset = found[0]
    first, last = onset.episode.first, onset.episode.last
    op = slow_op.op_behind(times, miss.tables["op_times"], onset)
    seen = f"{text}. That is seen in steps {times.step_S[first]} to {times.step_S[last]}"
    if miss.label.kind == "slow_op" and op is None:
        return (
            f"{seen}, but no one operation makes up {percent(slow_op.MAIN_SHARE)} of it on the "
            f"median rank and {percent(slow_op.LEAST_SHARE)} on each."
        )
    begin = step_levels.WARM_UP_STEPS
    return f"{seen}. {steps_longer(times.window_S[begin:], first - begin, last - begin)}."


def waits_for_data(miss: Miss) -> str:
    """The rank that loads and waits least."""
    share_RS = miss.times.phases["data"] / miss.times.window_S
    loads_R = np.array([middle(share_S) > 0 for share_S in share_RS])
    if not loads_R.any():
        return "Most ranks never wait for data."
    least_S = np.where(np.isfinite(share_RS[loads_R]), share_RS[loads_R], np.inf).min(axis=0)
    share_S = np.where(np.isfinite(least_S), least_S, np.nan)
    text = f"The rank that waits least for data does so for {percent(miss.now(share_S))} of a step"
    if not miss.before_N.size:
        return (
            f"{text}; {percent(2 * STARVED)} are asked of a wait that was there from the first "
            "steps on."
        )
    begin = step_levels.WARM_UP_STEPS
    first, last = int(miss.column_N[0]) - begin, int(miss.column_N[-1]) - begin
    return (
        f"{text}, {percent(miss.risen(share_S))} more than before; a step counts from "
        f"{percent(border_of(share_S, MIN_EXCESS))} on. "
        f"{steps_longer(miss.times.window_S[begin:], first, last)}; asked are half of the wait, "
        f"and {step_levels.CLEAR:g} times the swing where there are "
        f"{step_levels.FEWEST_STEPS} steps or more."
    )


def long_steps(miss: Miss) -> str:
    """Rare long steps against the others."""
    longer_S = miss.times.window_S - running_medians(miss.times.window_S)
    usual_ms = middle(miss.times.window_S)
    since_N = miss.times.step_S[miss.column_N] - miss.label.first_step
    hit = miss.column_N[since_N % EVERY_STEPS == 0]
    hit = hit[hit >= step_levels.WARM_UP_STEPS]
    if not hit.size:
        return "Only steps in which the job warms up are hit."
    others_S = np.delete(longer_S, np.union1d(hit, np.arange(step_levels.WARM_UP_STEPS)))
    named_RS = np.sum([np.nan_to_num(miss.times.phases[n]) for n in _OTHER_KINDS], axis=0)
    least, most = float(longer_S[hit].min()), float(np.nanmax(others_S, initial=0.0))
    named, asked = middle(named_RS.max(axis=0)[hit]), least_spike(miss.times, longer_S)
    return (
        f"{hit.size} steps are longer than those around them, the least by "
        f"{percent(least / usual_ms)} of a step; saves, collections and data, which do not count, "
        f"take {percent(named / usual_ms)} in them. Another step is {percent(most / usual_ms)} "
        f"longer. Asked are {FEWEST} steps, {percent(asked / usual_ms)} (by what "
        f"steps of this job vary, at least {percent(MIN_SPIKE)}), and {APART:g} times any other."
    )


def saves(miss: Miss) -> str:
    """The rank that saves against others that save, and what saves cost."""
    save_RS = np.nan_to_num(miss.times.phases["checkpoint"])
    columns = np.flatnonzero((save_RS > 0).any(axis=0))
    if columns.size < 2:
        return f"{columns.size} steps have a save; two are needed."
    longest_ms = middle(save_RS.max(axis=0)[columns])
    interval = float(np.median(np.diff(miss.times.step_S[columns])))
    share = longest_ms / (longest_ms + interval * middle(miss.times.window_S))
    own_RC = save_RS[miss.rows][:, columns]
    others_RC = np.delete(save_RS, miss.rows, axis=0)[:, columns]
    others_RC = others_RC[(others_RC > 0).any(axis=1)]
    against = "no other rank saves"
    if others_RC.size and own_RC.size:
        ratio = middle(own_RC) / max(middle(others_RC), 1e-9)
        against = (
            f"its rank saves {ratio:.2f} times as long as the others that save "
            f"({LONGER:g} asked, in {FEWEST_TO_NAME} saves or more)"
        )
    return (
        f"{columns.size} saves take {percent(share)} of the time ({percent(LEAST_SHARE)} asked "
        f"of one rank, {percent(MOST_SHARE)} of all); {against}."
    )


def in_turn(miss: Miss) -> str:
    """Another rank late in each step: the lead of the one that is latest outside of phases."""
    times = miss.times
    rest_RS = np.fmin(times.beyond_peers("rest"), times.late_RS)
    if not np.isfinite(rest_RS).any():
        return whole_job(miss)
    lead_S = np.maximum(np.where(np.isfinite(rest_RS), rest_RS, 0.0).max(axis=0), 0.0)
    now = miss.now(lead_S)
    if now < MIN_EXCESS:
        return f"No time outside of phases shows who starts last. {whole_job(miss)}"
    text = f"The rank that starts last leads by {percent(now)} of a step"
    if not miss.before_N.size:
        return f"{text} from the first steps on: no step shows whether that is usual."
    known_RN = np.where(np.isfinite(rest_RS), rest_RS, -np.inf)[:, miss.column_N]
    counts = np.bincount(known_RN.argmax(axis=0))
    even = late_ranks.evenness(lead_S[miss.column_N])
    return (
        f"{text}, {percent(miss.risen(lead_S))} more than before; a step counts from "
        f"{percent(border_of(lead_S, MIN_EXCESS))} on. In nine of ten steps it leads by "
        f"{percent(even)} of that or more ({percent(late_ranks.LEAST_EVEN)} asked); "
        f"{(counts > 0).sum()} ranks lead, one in {percent(counts.max() / counts.sum())} of the "
        f"{miss.column_N.size} steps (at most {percent(rotating_skew.MOST_OF_ONE)}, and "
        f"{rotating_skew.FEWEST_IN_TURN} steps asked). {whole_job(miss)}"
    )


def stage(miss: Miss) -> str:
    """The quickest rank of a stage against the other stages."""
    work = work_of(miss.tables)
    column_N = miss.columns_of(work.step_S)
    pp_R = work.ranks.coords_R["pp"]
    stages = np.unique(pp_R[pp_R >= 0])
    is_own_P = np.isin(stages, miss.label.stages)
    if not is_own_P.any() or is_own_P.all() or not column_N.size:
        return ""
    known_RS = np.where(np.isfinite(work.work_RS), work.work_RS, np.inf)
    quickest_PS = np.array([known_RS[pp_R == stage].min(axis=0) for stage in stages])
    quickest_PS[~np.isfinite(quickest_PS)] = np.nan
    ratio_S = quickest_PS[is_own_P][0] / middles(quickest_PS[~is_own_P])
    begin = step_levels.WARM_UP_STEPS
    before_S = ratio_S[begin : max(int(column_N[0]), begin)]
    now = middle(ratio_S[column_N])
    before = f", before it {longer(middle(before_S) - 1)}" if before_S.size else ""
    alone = " Of two stages only the change is compared." if stages.size == 2 else ""
    return (
        f"Its quickest rank computes {longer(now - 1)} than the other stages{before}; a step "
        f"counts from {percent(border_of(ratio_S, MIN_STAGE_EXCESS))} on, and "
        f"{percent(LEAST_MEDIAN)} are asked.{alone}"
    )

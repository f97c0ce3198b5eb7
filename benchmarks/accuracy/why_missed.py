"""Why a planted fault was missed: what the detectors of its kinds compared, and what they ask for.

Reads the tables that the diagnosis read and calls the functions that the detectors call, so that a
sentence holds the numbers that decided. Shape suffixes: R ranks, S steps, N columns of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from app.analysis.diagnosis import all_steps, tables_of
from benchmarks.accuracy.score import score
from diagnosis.detectors import DETECTORS, launch_skew
from diagnosis.detectors.data_loader import STARVED
from diagnosis.detectors.jit_spikes import APART, FEWEST
from diagnosis.detectors.slow_checkpoint import LEAST_SHARE, LONGER, MOST_SHARE
from diagnosis.detectors.slow_op import MAIN_SHARE as MAIN_OF_OP
from diagnosis.detectors.slow_stage import LEAST_MEDIAN
from diagnosis.findings import Finding, Verdict
from diagnosis.statistics import late_ranks, onsets, step_levels
from diagnosis.statistics.late_ranks import Candidates, Late
from diagnosis.statistics.peers import NOISE_MADS, noises, peers_of, slowdowns, work_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, middles, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.swings import LEAST_APART, LEAST_BEYOND, no_swings
from ingest.run import Run
from sample_traces.generate.labelled.labels import Label

_PHASES = ("compute", "stretch", "data", "gc", "checkpoint", "rest")
_OTHER_KINDS = ("data", "gc", "checkpoint")
"""Phases that have kinds of their own."""
_WORDS = {"stretch": "compute without CPU time", "rest": "what no timer covers"}


@dataclass(frozen=True)
class Miss:
    """A missed fault, and what the diagnosis of its run read."""

    label: Label
    tables: Mapping[str, pa.Table]
    attempt: int

    @cached_property
    def times(self) -> PhaseTimes:
        """Phases of its ranks."""
        return phase_times(self.tables)

    @cached_property
    def column_N(self) -> Ints:
        """Columns of the fault's steps."""
        step_S = self.times.step_S
        is_hit_S = (step_S >= self.label.first_step) & (step_S <= self.label.last_step)
        return np.flatnonzero(is_hit_S)

    @cached_property
    def before_N(self) -> Ints:
        """Columns of the steps before it, without those in which a job warms up."""
        begin = step_levels.WARM_UP_STEPS
        return np.arange(begin, max(int(self.column_N[0]), begin))

    @property
    def rows(self) -> Ints:
        """Rows of the ranks to name."""
        return np.flatnonzero(np.isin(self.times.ranks.rank_R, self.label.ranks))

    def risen(self, value_S: Floats) -> float:
        """By how much the median of its steps is above that of the steps before; NaN of none."""
        return middle(value_S[self.column_N]) - middle(value_S[self.before_N])


def whys(run: Run, labels: Sequence[Label], findings: Sequence[dict[str, object]]) -> list[str]:
    """A sentence for each label that was missed, '' for the others."""
    missed = [match.label for match in score(labels, findings).matches if match.finding is None]
    if not missed:
        return [""] * len(labels)
    tables = tables_of(run, run.newest_attempt, all_steps(run))
    return [
        why_missed(Miss(label, tables, run.newest_attempt))
        if any(label is one for one in missed)
        else ""
        for label in labels
    ]


def why_missed(miss: Miss) -> str:
    """What decided: another finding that took its place, what was not recorded, or a number."""
    kinds = set(miss.label.kinds)
    fitting = [detector for detector in DETECTORS if kinds & set(detector.kinds)]
    judged = [detector.judge(miss.tables, miss.attempt) for detector in fitting]
    verdicts = [verdict for verdict in judged if verdict is not None]
    for verdict in verdicts:
        for finding in verdict.findings:
            if finding.kind in kinds and _is_of(miss.label, finding):
                return (
                    f"{verdict.detector} found “{finding.title}”: taken as part of another finding."
                )
    if not miss.column_N.size:
        return "Its steps were not recorded."
    said = [*_set_aside(miss, verdicts), *_measured(miss)]
    if not said:
        said = [missing.missing for verdict in verdicts for missing in verdict.not_enough]
    return " ".join(said) or "No detector judges this run for it."


def _is_of(label: Label, finding: Finding) -> bool:
    """Whether it is about some of the ranks of the label, or the job, in steps of the fault."""
    ranks = {place.rank for place in finding.culprits}
    if bool(ranks & {*label.ranks}) != bool(label.ranks) or bool(ranks) > bool(label.ranks):
        return False
    spans = finding.episodes or ((finding.first_step, finding.last_step),)
    return any(first <= label.last_step and label.first_step <= last for first, last in spans)


def _set_aside(miss: Miss, verdicts: Sequence[Verdict]) -> list[str]:
    """What its detectors say that stood out and is no finding; of ranks what names one of them."""
    about = [f"ank {rank} " for rank in miss.label.ranks]
    return [
        sentence
        for verdict in verdicts
        for sentence in verdict.set_aside
        if not about or any(words in sentence for words in about)
    ][:1]


def _measured(miss: Miss) -> list[str]:
    own = _BY_KIND.get(miss.label.kind)
    if own is None:
        own = _late_rank if miss.label.ranks else _whole_job
    return [sentence for sentence in [own(miss)] if sentence]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _longer(share: float) -> str:
    return f"{_percent(abs(share))} {'shorter' if share < 0 else 'longer'}"


# The whole job


def _whole_job(miss: Miss) -> str:
    """Steps against those before."""
    window_S = miss.times.window_S
    begin = step_levels.WARM_UP_STEPS
    first, last = int(miss.column_N[0]) - begin, int(miss.column_N[-1]) - begin
    num = last - first + 1
    if first < 1:
        return "It acts from the first steps on: no step shows what was usual."
    known_S = window_S[begin:]
    longer = step_levels.longer_by(known_S, first, last)
    most = step_levels.most_longer_by(known_S, first, last)
    sigmas = step_levels.beyond_swings(known_S, first, last)
    least = step_levels.FEWEST_STEPS
    text = (
        f"Its {num} steps are {_longer(longer)} than those before (the median step "
        f"{_longer(most)}), {sigmas:.1f} standard deviations of what as many steps swing by"
    )
    asked = (
        f"asked: {_percent(step_levels.LEAST_RISE)} for {least} steps and "
        f"{step_levels.CLEAR_FOR_LONG:g} deviations, or {_percent(2 * step_levels.LEAST_RISE)}"
        if num >= least
        else f"asked of fewer than {least}: {_percent(step_levels.SHORT_RISE)}, three in a row"
    )
    if first < least:
        asked += f"; {first} steps came before"
    return f"{text} ({asked})."


def _longer_compute(miss: Miss) -> str:
    """Compute of all ranks against their own past."""
    if (kept := _not_comparable(miss)) is not None:
        return kept
    compute_S = middles(miss.times.phases["compute"])
    before = middle(compute_S[miss.before_N])
    if not before > 0:
        return "It acts from the first steps on: no step shows what was usual."
    share_S = compute_S / before
    risen = miss.risen(share_S)
    noise = NOISE_MADS * middle(np.abs(np.diff(share_S))) / np.sqrt(2)
    text = (
        f"The median rank computes {_percent(risen)} longer than in the {miss.before_N.size} "
        f"steps before; votes begin at {_percent(max(onsets.MIN_RISE, noise))}"
    )
    found = [o for o in onsets.onsets(miss.times) if _on(miss, o.episode.first, o.episode.last)]
    if not found:
        return f"{text}."
    longer = step_levels.longer_by(
        miss.times.window_S[step_levels.WARM_UP_STEPS :],
        found[0].episode.first - step_levels.WARM_UP_STEPS,
        found[0].episode.last - step_levels.WARM_UP_STEPS,
    )
    why = f"steps are {_percent(longer)} longer"
    if miss.label.kind == "slow_op":
        why = f"no operation makes up {_percent(MAIN_OF_OP)} of that on the median rank"
    return f"{text}; that is seen, and {why}."


def _not_comparable(miss: Miss) -> str | None:
    missing = onsets.not_comparable("", miss.times)
    return missing[0].missing if missing else None


def _on(miss: Miss, first: int, last: int) -> bool:
    return first <= int(miss.column_N[-1]) and int(miss.column_N[0]) <= last


def _waits_for_data(miss: Miss) -> str:
    """Ranks that load and are blocked least."""
    if miss.label.ranks:
        return _late_rank(miss)
    share_RS = miss.times.phases["data"] / miss.times.window_S
    loading_R = np.nanmedian(share_RS, axis=1) > 0
    if not loading_R.any():
        return "Most ranks never wait for data."
    share_S = np.nanmin(share_RS[loading_R], axis=0)
    noise = NOISE_MADS * middle(np.abs(np.diff(share_S))) / np.sqrt(2)
    now = middle(share_S[miss.column_N])
    if not miss.before_N.size:
        asked = f"{_percent(2 * STARVED)} asked where it was never less"
        return (
            f"The rank that waits least for data waits for {_percent(now)} of its steps; {asked}."
        )
    even = late_ranks.evenness(share_S[miss.column_N])
    return (
        f"The rank that waits least for data waits for {_percent(now)} of a step, "
        f"{_percent(miss.risen(share_S))} more than before; votes begin at "
        f"{_percent(max(noise, MIN_EXCESS))}, in nine of ten steps {_percent(even)} of the usual "
        f"({_percent(late_ranks.LEAST_EVEN)} asked). {_whole_job(miss)}"
    )


def _long_steps(miss: Miss) -> str:
    """Rare long steps against the others."""
    longer_S = miss.times.window_S - running_medians(miss.times.window_S)
    usual_ms = middle(miss.times.window_S)
    hit = miss.column_N[miss.times.step_S[miss.column_N] % 10 == 0]  # every tenth step
    hit = hit[hit >= step_levels.WARM_UP_STEPS]
    others_S = np.delete(longer_S, np.union1d(hit, np.arange(step_levels.WARM_UP_STEPS)))
    if not hit.size:
        return "Only steps in which the job warms up are hit."
    least, most = float(longer_S[hit].min()), float(np.nanmax(others_S, initial=0.0))
    named_RS = np.sum([np.nan_to_num(miss.times.phases[n]) for n in _OTHER_KINDS], axis=0)
    named = float(np.median(named_RS.max(axis=0)[hit]))
    return (
        f"{hit.size} steps, the least of them {_percent(least / usual_ms)} of a step longer than "
        f"those around, {_percent(named / usual_ms)} for saves, collections or data; another step "
        f"is {_percent(most / usual_ms)} longer (asked, without these: {FEWEST} steps, each "
        f" {APART:g} times as much as any other, and {_percent(MIN_EXCESS)})."
    )


def _saves(miss: Miss) -> str:
    """The rank that saves against others that save, and what saves cost."""
    save_RS = np.nan_to_num(miss.times.phases["checkpoint"])
    longest_S = save_RS.max(axis=0)
    columns = np.flatnonzero(longest_S > 0)
    if columns.size < 2:
        return f"{columns.size} steps have a save."
    share = float(longest_S[columns].sum() / np.nansum(miss.times.window_S))
    own = save_RS[miss.rows][:, columns]
    others = np.delete(save_RS, miss.rows, axis=0)[:, columns]
    against = "no other rank saves"
    if others.size and middle(others) > 0:
        ratio = middle(own) / middle(others)
        against = f"the rank saves {ratio:.2f} times as long as others ({LONGER:g} asked)"
    return (
        f"{columns.size} saves take {_percent(share)} of the time (asked: {_percent(LEAST_SHARE)} "
        f"of one rank, {_percent(MOST_SHARE)} of all); {against}."
    )


def _in_turn(miss: Miss) -> str:
    """Another rank late in each step: the lead of the one that is latest outside of phases."""
    rest_RS = np.fmin(miss.times.beyond_peers("rest"), miss.times.late_RS)
    if not np.isfinite(rest_RS).any():
        return "Fewer than four ranks are comparable: who starts late is not known."
    lead_S = np.maximum(np.nanmax(rest_RS, axis=0), 0.0)
    noise = NOISE_MADS * middle(np.abs(np.diff(lead_S))) / np.sqrt(2)
    now, least = middle(lead_S[miss.column_N]), max(noise, MIN_EXCESS)
    if now < MIN_EXCESS:
        return f"No time outside of phases shows who starts last. {_whole_job(miss)}"
    if not miss.before_N.size:
        return (
            f"The rank that starts last leads by {_percent(now)} of a step from the first steps "
            "on: no step shows whether that is usual."
        )
    leader_N = np.nanargmax(np.nan_to_num(rest_RS[:, miss.column_N], nan=-np.inf), axis=0)
    most = np.bincount(leader_N).max() / leader_N.size
    even = late_ranks.evenness(lead_S[miss.column_N])
    return (
        f"The rank that starts last leads by {_percent(now)} of a step, "
        f"{_percent(miss.risen(lead_S))} more than before (votes begin at {_percent(least)}), in "
        f"nine of ten steps by {_percent(even)} of that ({_percent(late_ranks.LEAST_EVEN)} asked); "
        f"one rank leads in {_percent(most)} of the steps. {_whole_job(miss)}"
    )


def _stage(miss: Miss) -> str:
    """The quickest rank of a stage against the other stages."""
    work = work_of(miss.tables)
    pp_R = work.ranks.coords_R["pp"]
    stages = np.unique(pp_R[pp_R >= 0])
    quickest_PS = np.array([np.nanmin(work.work_RS[pp_R == p], axis=0) for p in stages])
    own = np.isin(stages, miss.label.stages)
    if not own.any() or own.all():
        return "Its stage is not known."
    ratio_S = quickest_PS[own][0] / middles(quickest_PS[~own])
    noise = NOISE_MADS * middle(np.abs(np.diff(ratio_S))) / np.sqrt(2)
    now = middle(ratio_S[miss.column_N]) - 1
    risen = f" ({_percent(miss.risen(ratio_S))} more than before)" if miss.before_N.size else ""
    return (
        f"Its quickest rank computes {_percent(now)} longer than the other stages{risen}; votes "
        f"begin at the noise of {_percent(noise)} ({_percent(LEAST_MEDIAN)} asked)."
    )


def _slow_rank(miss: Miss) -> str:
    """Compute of a rank against its peers."""
    work = work_of(miss.tables)
    peers = peers_of(work.ranks)
    trusted_R = ~np.isin(work.ranks.rank_R, miss.label.ranks)
    slow_RS = slowdowns(work, peers, trusted_R)
    noise_R = noises(slow_RS, peers, trusted_R)
    row = int(miss.rows[0])
    excess = middle(slow_RS[row, miss.column_N]) - 1
    least = max(float(np.nan_to_num(noise_R[row])), MIN_EXCESS)
    even = late_ranks.evenness(slow_RS[row, miss.column_N] - 1)
    return (
        f"Rank {work.ranks.rank_R[row]} computes {_percent(excess)} longer than its peers "
        f"({peers.whom_R[row]}), in nine of ten steps by {_percent(even)} of that "
        f"({_percent(late_ranks.LEAST_EVEN)} asked); votes begin at {_percent(least)}. "
        f"{_late_rank(miss)}"
    )


# Ranks that come late


def _late_rank(miss: Miss) -> str:
    """How far the rank that shows least gets on the way to being named."""
    texts = [_late(miss, int(row)) for row in miss.rows]
    return next((text for text in texts if text), "")


def _late(miss: Miss, row: int) -> str:
    times, column_N = miss.times, miss.column_N
    who = f"Rank {times.ranks.rank_R[row]}"
    beyond = {name: middle(times.beyond_peers(name)[row, column_N]) for name in _PHASES}
    phase = max(beyond, key=lambda name: np.nan_to_num(beyond[name], nan=-1.0))
    if not np.isfinite(beyond[phase]):
        return f"{who} has too few peers to be late against."
    found = late_ranks.candidates(times, (phase,))
    share = middle(found.excess_RS[row, column_N])
    late = middle(times.late_RS[row, column_N])
    text = (
        f"{who} comes late by {_percent(late)} of a step, by {_percent(share)} for "
        f"{_WORDS.get(phase, phase)}"
    )
    own = [
        one
        for one in found.lates
        if one.row == row and _on(miss, one.episode.first, one.episode.last)
    ]
    if not own:
        return f"{text}; votes begin at {_percent(float(found.threshold_R[row]))}."
    worst = max(own, key=lambda one: one.num_steps)
    return f"{text}; {_held_back(times, found, worst) or _of_its_kind(times, phase, worst)}."


def _held_back(times: PhaseTimes, found: Candidates, late: Late) -> str:
    """The first condition of a culprit that it does not meet."""
    steps = f"in steps {times.step_S[late.episode.first]} to {times.step_S[late.episode.last]} "
    if late.steady < late_ranks.STEADY_SHARE:
        return f"{steps}it is late in {_percent(late.steady)} of the steps (80 % asked)"
    if late.even < late_ranks.LEAST_EVEN:
        asked = _percent(late_ranks.LEAST_EVEN)
        return f"{steps}in nine of ten by {_percent(late.even)} of the usual ({asked} asked)"
    span = (late.row, late.episode.first, late.episode.last)
    beyond = no_swings(found.excess_RS, times.stage_R, [span])
    if not beyond:
        return (
            f"{steps}that is less than {LEAST_BEYOND:g} standard deviations, or {LEAST_APART:g} "
            "times the greatest, of what ranks swing by over as many steps"
        )
    if late.num_steps < late_ranks.SHORT_STEPS and not late_ranks.is_calm(
        found.excess_RS, {late.row}, found.threshold_R
    ):
        return f"{steps}for {late.num_steps} steps, in a job in which other ranks stand out, too"
    columns = np.arange(late.episode.first, late.episode.last + 1)
    if not late_ranks.last_shares(found.excess_RS, times.stage_R, [(late.row, columns)]):
        asked = _percent(late_ranks.LEAST_LAST)
        return (
            f"{steps}others come later in more than a quarter of the steps (last in {asked} asked)"
        )
    if not late_ranks.is_longer(times.window_S, late.episode, late.share):
        return f"{steps}steps are not longer than before by a quarter of it"
    return ""


def _of_its_kind(times: PhaseTimes, phase: str, late: Late) -> str:
    """What a late rank lacks for a kind."""
    compute = middle(times.beyond_peers("compute")[late.row, late.span])
    if phase in ("rest", "stretch") and late.share < launch_skew.LEAST_SHARE:
        return f"{_percent(launch_skew.LEAST_SHARE)} are asked of such time"
    if phase in ("rest", "stretch") and compute > launch_skew.MOST_COMPUTE * late.share:
        return f"it computes longer by {_percent(compute)} of a step, too"
    return "a detector of its kind held it back"


_BY_KIND: dict[str, Callable[[Miss], str]] = {
    "slow_op": _longer_compute,
    "step_regression": lambda miss: (
        _longer_compute(miss) if not miss.label.planted else _whole_job(miss)
    ),
    "data_loader": _waits_for_data,
    "jit_spikes": _long_steps,
    "slow_checkpoint": _saves,
    "launch_skew": lambda miss: _late_rank(miss) if miss.label.ranks else _in_turn(miss),
    "slow_stage": _stage,
    "slow_worker": lambda miss: _late_rank(miss) if miss.label.planted else _slow_rank(miss),
}

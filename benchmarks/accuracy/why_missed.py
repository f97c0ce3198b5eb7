"""Why a planted fault was missed: what the detectors of its kinds compared, and what they ask for.

Reads the tables that the diagnosis read and calls the functions that the detectors call. Of kinds
that are compared in other ways it says what their detectors say. Shape suffixes: R ranks, S steps,
N columns of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from app.analysis.diagnosis import all_steps, tables_of
from benchmarks.accuracy.score import episodes, names_place, score
from diagnosis.detectors import DETECTORS, launch_skew, rotating_skew, slow_op
from diagnosis.detectors.data_loader import STARVED
from diagnosis.detectors.jit_spikes import APART, FEWEST
from diagnosis.detectors.slow_checkpoint import FEWEST_TO_NAME, LEAST_SHARE, LONGER, MOST_SHARE
from diagnosis.detectors.slow_stage import LEAST_MEDIAN, MIN_STAGE_EXCESS
from diagnosis.findings import Verdict
from diagnosis.statistics import late_ranks, onsets, step_levels
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.late_ranks import Candidates, Late
from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import NOISE_MADS, noises, peers_of, slowdowns, work_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, middles, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.swings import LEAST_APART, LEAST_BEYOND, no_swings
from ingest.run import Run
from sample_traces.generate.faults import EVERY_STEPS
from sample_traces.generate.labelled.labels import Label

_STANDING_STILL = ("stretch", "rest")
"""Phases in which a rank stands still."""
_OTHER_KINDS = ("data", "gc", "checkpoint")
"""Phases that have kinds of their own."""
_WORDS = {
    ("data",): "its wait for data",
    ("compute",): "its compute",
    _STANDING_STILL: "standing still",
}
_FROM_THE_FIRST = "It acts from the first steps on: no step shows what was usual."

GROUPS = (
    ("merged with another", "found, and merged with another finding or dropped for it"),
    ("of standing still", "late by less than is asked of a rank that stands still"),
    ("first steps on", "there from the first steps on: what is usual is not known"),
    ("first step on, or about", "a rank whose role is not known: it may be its share of the work"),
    ("usually swing by", "late by no more than ranks of this job swing by"),
    ("times the swing", "steps longer by too little, or by no more than they swing"),
    ("In nine of ten", "late by too little in one of ten steps"),
    ("in nine of ten", "late by too little in one of ten steps"),
    ("it is late in", "late in fewer than four of five steps"),
    ("not the last", "another rank comes later in these steps"),
    ("holds waiting", "waiting for others is part of the timer that shows it"),
    ("no one operation", "no one operation makes up what compute takes longer"),
    ("a step counts from", "longer by less than a step needs to count"),
    ("saves take", "saves that cost less than is worth a finding"),
    ("those around them", "rare steps that do not stand apart"),
)
"""Words of a reason, and what is counted under them; the first that fits."""


def group_of(why: str) -> str:
    """What a reason is counted under."""
    return next((title for words, title in GROUPS if words in why), "another")


@dataclass(frozen=True)
class Miss:
    """A missed fault, and what the diagnosis of its run read and found."""

    label: Label
    tables: Mapping[str, pa.Table]
    attempt: int
    findings: Sequence[dict[str, Any]] = ()

    @cached_property
    def times(self) -> PhaseTimes:
        """Phases of its ranks."""
        return phase_times(self.tables)

    @cached_property
    def column_N(self) -> Ints:
        """Columns of the fault's steps."""
        return self.columns_of(self.times.step_S)

    def columns_of(self, step_S: Ints) -> Ints:
        """Columns of the fault's steps among these."""
        return np.flatnonzero((step_S >= self.label.first_step) & (step_S <= self.label.last_step))

    @cached_property
    def before_N(self) -> Ints:
        """Columns of the steps before it, without those in which a job warms up."""
        begin = step_levels.WARM_UP_STEPS
        return np.arange(begin, max(int(self.column_N[0]), begin))

    @property
    def rows(self) -> Ints:
        """Rows of the ranks to name."""
        return np.flatnonzero(np.isin(self.times.ranks.rank_R, self.label.ranks))

    def now(self, value_S: Floats) -> float:
        """Median of its steps."""
        return middle(value_S[self.column_N])

    def risen(self, value_S: Floats) -> float:
        """By how much that is above the median of the steps before."""
        return self.now(value_S) - middle(value_S[self.before_N])

    def acts_in(self, first: int, last: int) -> bool:
        """Whether one of these columns is a step of the fault."""
        return first <= int(self.column_N[-1]) and int(self.column_N[0]) <= last


def whys(run: Run, labels: Sequence[Label], findings: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each label that was missed, '' for the others."""
    missed = [match.label for match in score(labels, findings).matches if match.finding is None]
    if not missed:
        return [""] * len(labels)
    tables = tables_of(run, run.newest_attempt, all_steps(run))
    texts = []
    for label in labels:
        text = ""
        if any(label is one for one in missed):
            try:
                text = why_missed(Miss(label, tables, run.newest_attempt, findings))
            except Exception as error:  # noqa: BLE001  # the job was judged: that counts
                text = f"Why cannot be said: {type(error).__name__} ({error})."
        texts.append(text)
    return texts


def why_missed(miss: Miss) -> str:
    """What decided: another finding that took its place, what was not recorded, or a number."""
    kinds = set(miss.label.kinds)
    judged = [one.judge(miss.tables, miss.attempt) for one in DETECTORS if kinds & {*one.kinds}]
    verdicts = [verdict for verdict in judged if verdict is not None]
    for verdict in verdicts:
        for finding in verdict.findings:
            if _would_fit(miss, finding.to_json()):
                return (
                    f"{verdict.detector} found “{finding.title}”, which was merged with another "
                    "finding or dropped for it."
                )
    declined = [gap.missing for v in verdicts if v.checked is None for gap in v.not_enough]
    if verdicts and all(v.checked is None and not v.findings for v in verdicts) and declined:
        return " ".join(dict.fromkeys(declined))
    if not miss.column_N.size:
        return "Its steps were not recorded."
    own = _BY_PLANTED.get(miss.label.planted or miss.label.kind)
    said = [*_set_aside(miss, verdicts), *([own(miss)] if own is not None else [])]
    if not any(said):
        said = [v.checked for v in verdicts if v.checked] or declined
    return " ".join(filter(None, said)) or "No detector judges this run for it."


def _would_fit(miss: Miss, finding: dict[str, Any]) -> bool:
    """Whether a detector's own finding is about the fault, and the diagnosis has it no more."""
    label = miss.label
    meets = any(
        first <= label.last_step and label.first_step <= last for first, last in episodes(finding)
    )
    ranks = set(finding["ranks"])
    is_listed = any(
        one["kind"] == finding["kind"] and (ranks & {*one["ranks"]} or not (ranks or one["ranks"]))
        for one in miss.findings
    )
    fits = finding["kind"] in label.kinds and meets and names_place(finding, label)
    return fits and not is_listed


def _set_aside(miss: Miss, verdicts: Sequence[Verdict]) -> list[str]:
    """What its detectors say that stood out and is no finding; of ranks what names one of them."""
    about = [f"ank {rank} " for rank in miss.label.ranks]
    sentences = (sentence for verdict in verdicts for sentence in verdict.set_aside)
    return [s for s in sentences if not about or any(words in s for words in about)][:1]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else "an unknown share"


def _longer(share: float) -> str:
    return f"{_percent(abs(share))} {'shorter' if share < 0 else 'longer'}"


def _border(value_S: Floats, least: float) -> float:
    """From which value on a step counts: this, or the noise from step to step."""
    noise = NOISE_MADS * middle(np.abs(np.diff(value_S))) / np.sqrt(2)
    return max(least, float(noise)) if np.isfinite(noise) else least


# The whole job


def _whole_job(miss: Miss) -> str:
    """Steps against those before."""
    begin = step_levels.WARM_UP_STEPS
    known_S = miss.times.window_S[begin:]
    first, last = int(miss.column_N[0]) - begin, int(miss.column_N[-1]) - begin
    if first < 1:
        return _FROM_THE_FIRST
    text = f"{_steps_longer(known_S, first, last)}; asked are"
    if last - first + 1 < step_levels.FEWEST_STEPS:
        text += (
            f" {_percent(step_levels.SHORT_RISE)}, or {_percent(step_levels.LEAST_RISE)} and "
            f"{step_levels.CLEAR:g} times the swing, as there are fewer than "
            f"{step_levels.FEWEST_STEPS} steps"
        )
    else:
        text += (
            f" {_percent(2 * step_levels.LEAST_RISE)}, or {_percent(step_levels.LEAST_RISE)} and "
            f"{step_levels.CLEAR_FOR_LONG:g} times the swing"
        )
    fewest = step_levels.fewest_before(known_S.size)
    short = f" Only {first} steps came before it; {fewest} are asked." if first < fewest else ""
    return f"{text}.{short}"


def _steps_longer(known_S: Floats, first: int, last: int) -> str:
    longer = step_levels.longer_by(known_S, first, last)
    most = step_levels.most_longer_by(known_S, first, last)
    swings = step_levels.beyond_swings(known_S, first, last)
    beyond = f"{swings:.1f} times the usual swing of as many steps"
    if not np.isfinite(swings):
        beyond = "their swing is not known"
    return (
        f"Its {last - first + 1} steps are {_longer(longer)} than the {first} before them (the "
        f"median step {_longer(most)}; {beyond})"
    )


def _longer_compute(miss: Miss, least: float) -> str:
    """Compute of all ranks against their own past; what is seen, and why it is no finding."""
    if not miss.before_N.size:
        return _FROM_THE_FIRST
    times = miss.times
    compute_S = middles(times.phases["compute"])
    share_S = compute_S / middle(compute_S[miss.before_N])
    text = (
        f"The median rank computes {_longer(miss.risen(share_S))} than in the "
        f"{miss.before_N.size} steps before; a step counts from "
        f"{_percent(onsets.border_of(share_S, least))} on"
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
            f"{seen}, but no one operation makes up {_percent(slow_op.MAIN_SHARE)} of it on the "
            f"median rank and {_percent(slow_op.LEAST_SHARE)} on each."
        )
    begin = step_levels.WARM_UP_STEPS
    return f"{seen}. {_steps_longer(times.window_S[begin:], first - begin, last - begin)}."


def _waits_for_data(miss: Miss) -> str:
    """The rank that loads and waits least."""
    share_RS = miss.times.phases["data"] / miss.times.window_S
    loads_R = np.array([middle(share_S) > 0 for share_S in share_RS])
    if not loads_R.any():
        return "Most ranks never wait for data."
    least_S = np.where(np.isfinite(share_RS[loads_R]), share_RS[loads_R], np.inf).min(axis=0)
    share_S = np.where(np.isfinite(least_S), least_S, np.nan)
    text = f"The rank that waits least for data does so for {_percent(miss.now(share_S))} of a step"
    if not miss.before_N.size:
        return (
            f"{text}; {_percent(2 * STARVED)} are asked of a wait that was there from the first "
            "steps on."
        )
    begin = step_levels.WARM_UP_STEPS
    first, last = int(miss.column_N[0]) - begin, int(miss.column_N[-1]) - begin
    return (
        f"{text}, {_percent(miss.risen(share_S))} more than before; a step counts from "
        f"{_percent(_border(share_S, MIN_EXCESS))} on. "
        f"{_steps_longer(miss.times.window_S[begin:], first, last)}; asked are half of the wait, "
        f"and {step_levels.CLEAR:g} times the swing where there are "
        f"{step_levels.FEWEST_STEPS} steps or more."
    )


def _long_steps(miss: Miss) -> str:
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
    named = middle(named_RS.max(axis=0)[hit])
    return (
        f"{hit.size} steps are longer than those around them, the least by "
        f"{_percent(least / usual_ms)} of a step; saves, collections and data, which do not count, "
        f"take {_percent(named / usual_ms)} in them. Another step is {_percent(most / usual_ms)} "
        f"longer. Asked are {FEWEST} steps, {_percent(MIN_EXCESS)}, and {APART:g} times any other."
    )


def _saves(miss: Miss) -> str:
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
        f"{columns.size} saves take {_percent(share)} of the time ({_percent(LEAST_SHARE)} asked "
        f"of one rank, {_percent(MOST_SHARE)} of all); {against}."
    )


def _in_turn(miss: Miss) -> str:
    """Another rank late in each step: the lead of the one that is latest outside of phases."""
    times = miss.times
    rest_RS = np.fmin(times.beyond_peers("rest"), times.late_RS)
    if not np.isfinite(rest_RS).any():
        return _whole_job(miss)
    lead_S = np.maximum(np.where(np.isfinite(rest_RS), rest_RS, 0.0).max(axis=0), 0.0)
    now = miss.now(lead_S)
    if now < MIN_EXCESS:
        return f"No time outside of phases shows who starts last. {_whole_job(miss)}"
    text = f"The rank that starts last leads by {_percent(now)} of a step"
    if not miss.before_N.size:
        return f"{text} from the first steps on: no step shows whether that is usual."
    known_RN = np.where(np.isfinite(rest_RS), rest_RS, -np.inf)[:, miss.column_N]
    counts = np.bincount(known_RN.argmax(axis=0))
    even = late_ranks.evenness(lead_S[miss.column_N])
    return (
        f"{text}, {_percent(miss.risen(lead_S))} more than before; a step counts from "
        f"{_percent(_border(lead_S, MIN_EXCESS))} on. In nine of ten steps it leads by "
        f"{_percent(even)} of that or more ({_percent(late_ranks.LEAST_EVEN)} asked); "
        f"{(counts > 0).sum()} ranks lead, one in {_percent(counts.max() / counts.sum())} of the "
        f"{miss.column_N.size} steps (at most {_percent(rotating_skew.MOST_OF_ONE)}, and "
        f"{rotating_skew.FEWEST_IN_TURN} steps asked). {_whole_job(miss)}"
    )


def _stage(miss: Miss) -> str:
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
    before = f", before it {_longer(middle(before_S) - 1)}" if before_S.size else ""
    alone = " Of two stages only the change is compared." if stages.size == 2 else ""
    return (
        f"Its quickest rank computes {_longer(now - 1)} than the other stages{before}; a step "
        f"counts from {_percent(_border(ratio_S, MIN_STAGE_EXCESS))} on, and "
        f"{_percent(LEAST_MEDIAN)} are asked.{alone}"
    )


# Single ranks


def _slow_rank(miss: Miss) -> str:
    """Compute of a rank against its peers, as slow_worker compares it."""
    work = own_work(work_of(miss.tables))
    column_N = miss.columns_of(work.step_S)
    rows = np.flatnonzero(np.isin(work.ranks.rank_R, miss.label.ranks))
    if not rows.size or not column_N.size:
        return "Its rank has no compute in these steps."
    if miss.times.waits_hidden and work.measure != "forward":
        return f"Compute holds waiting for other ranks. {_late_rank(miss, _STANDING_STILL)}"
    peers = peers_of(work.ranks)
    trusted_R = ~np.isin(work.ranks.rank_R, miss.label.ranks)
    slow_RS = slowdowns(work, peers, trusted_R)
    noise_R = noises(slow_RS, peers, trusted_R)
    row = min(rows.tolist(), key=lambda row: middle(slow_RS[row, column_N]))
    excess_N = slow_RS[row, column_N] - 1
    if not np.isfinite(excess_N).any():
        return f"Rank {work.ranks.rank_R[row]} has too few peers, and too short a past."
    text = (
        f"Rank {work.ranks.rank_R[row]} takes {_longer(middle(excess_N))} for its {work.measure} "
        f"time than its peers ({peers.whom_R[row]}); a step counts from "
        f"{_percent(max(float(np.nan_to_num(noise_R[row])), MIN_EXCESS))} on, fully from twice that"
    )
    even = late_ranks.evenness(excess_N)
    if even < late_ranks.LEAST_EVEN:
        asked = _percent(late_ranks.LEAST_EVEN)
        return f"{text}. In nine of ten steps it does by {_percent(even)} of that ({asked} asked)."
    span = (row, int(column_N[0]), int(column_N[-1]))
    if not no_swings(slow_RS - 1, peers.group_R, [span]):
        return f"{text}. {_SWINGS}."
    return f"{text}."


_SWINGS = (
    f"That is less than {LEAST_BEYOND:g} times what ranks usually swing by over as many steps, or "
    f"{LEAST_APART:g} times what any of them does"
)


def _late_rank(miss: Miss, phases: tuple[str, ...]) -> str:
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
        f"{who} comes late by {_percent(late)} of a step, by {_percent(share)} for {_WORDS[phases]}"
    )
    own = [
        one
        for one in found.lates
        if one.row == row and miss.acts_in(one.episode.first, one.episode.last)
    ]
    if not own:
        border = _percent(float(found.threshold_R[row]))
        return f"{text}; a step counts from {border} on, fully from twice that."
    worst = max(own, key=lambda one: one.num_steps)
    steps = f"{times.step_S[worst.episode.first]} to {times.step_S[worst.episode.last]}"
    return f"{text}. In steps {steps}: {_held_back(times, found, worst, phases)}."


def _held_back(times: PhaseTimes, found: Candidates, late: Late, phases: tuple[str, ...]) -> str:
    """The first condition of a culprit that it does not meet."""
    if late.steady < late_ranks.STEADY_SHARE:
        asked = _percent(late_ranks.STEADY_SHARE)
        return f"it is late in {_percent(late.steady)} of them ({asked} asked)"
    if late.even < late_ranks.LEAST_EVEN:
        asked = _percent(late_ranks.LEAST_EVEN)
        return f"in nine of ten by {_percent(late.even)} of the usual or more ({asked} asked)"
    span = (late.row, late.episode.first, late.episode.last)
    if not no_swings(found.excess_RS, times.stage_R, [span]):
        return _SWINGS[0].lower() + _SWINGS[1:]
    if late.num_steps < late_ranks.SHORT_STEPS and not late_ranks.is_calm(
        found.excess_RS, {late.row}, found.threshold_R
    ):
        return f"{late.num_steps} steps are few in a job in which other ranks stand out, too"
    columns = np.arange(late.episode.first, late.episode.last + 1)
    if not late_ranks.last_shares(found.excess_RS, times.stage_R, [(late.row, columns)]):
        asked = _percent(late_ranks.LEAST_LAST)
        return f"it is not the last in {asked} of them"
    hides = max(times.hidden.values(), default=0.0) >= BORDER
    if hides and not late_ranks.is_longer(times.window_S, late.episode, late.share):
        return "steps are not longer than before by a quarter of what it is late by"
    if phases == _STANDING_STILL:
        if late.share < launch_skew.LEAST_SHARE:
            return f"{_percent(launch_skew.LEAST_SHARE)} are asked of standing still"
        compute = middle(times.beyond_peers("compute")[late.row, late.span])
        if compute > launch_skew.MOST_COMPUTE * late.share:
            return f"it computes longer by {_percent(compute)} of a step, too"
    return "it passes as a late rank by itself, and not beside the others"


def _in_phase(*phases: str) -> Callable[[Miss], str]:
    """Of a label without ranks the whole job is asked."""
    return lambda miss: _late_rank(miss, phases) if miss.label.ranks else _whole_job(miss)


_BY_PLANTED: dict[str, Callable[[Miss], str]] = {
    "slow_op": lambda miss: _longer_compute(miss, slow_op.LEAST_RISE),
    "step_regression": lambda miss: _longer_compute(miss, onsets.MIN_RISE),
    "job_slower": _whole_job,
    "data_loader": _waits_for_data,
    "jit_spikes": _long_steps,
    "slow_checkpoint": _saves,
    "launch_skew": _in_turn,
    "slow_stage": lambda miss: _stage(miss) if miss.label.stages else _slow_rank(miss),
    "slow_worker": _slow_rank,
    "host_contention": _in_phase(*_STANDING_STILL),
    "host_wide": _in_phase(*_STANDING_STILL),
    "late_elsewhere": _in_phase(*_STANDING_STILL),
    "late_in_data": _in_phase("data"),
    "late_in_compute": lambda miss: _slow_rank(miss) if miss.label.ranks else _whole_job(miss),
}
"""What is said of what was planted, where its detector's numbers can be given."""

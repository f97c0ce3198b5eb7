"""slow_stage: a whole pipeline stage takes longer than the others, on all its ranks.

A stage takes as long as its quickest rank, so that single slow ranks make no slow stage. It is
compared with the median of the other stages. Only the longest stage sets the pace of the pipeline:
the others hide behind it, so one that is longer than the median and not the longest is no finding.

Where each stage has one rank, unevenly placed layers and a slow device look the same: what is there
from the first step on is found as the stage, with the device not excluded; what begins later is
left to slow_worker, for a layout does not change. A stage whose ranks stand still without CPU time
for longer than they compute longer is kept from its cores (host_contention). Two stages are each
the other's only peer: of those only a change within the run is found. Where launches are
asynchronous, ranks may wait for a slow one of their stage inside their last backward, so most spans
of a stage must be longer.

Source: what-if study (2505.05713): uneven stages are the most frequent cause
of stragglers; MegaScan. Assumes: stages are meant to take equally long. Known false positives: a
last stage that is longer on purpose for want of a finer cut. Blind spots: two stages that differ
from the first step on. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict, cost_of
from diagnosis.statistics.episodes import MIN_VOTES, OVER_AFTER_STEPS, Episode, episodes
from diagnosis.statistics.evidence_links import first_two, pipeline_view, question_params
from diagnosis.statistics.late_ranks import lasting_or_calm
from diagnosis.statistics.peers import NOISE_MADS, Work, level_before, medians_of_others, work_of
from diagnosis.statistics.phase_findings import URGENT_SHARE, steps_missing
from diagnosis.statistics.phase_times import middle, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.stage_compute import standing_still_of, typical_compute
from diagnosis.statistics.swings import no_swings
from diagnosis.statistics.units import steps_text, when_text

NAME = "slow_stage"
KINDS = ("slow_stage",)
QUESTIONS = ("op_times", "rank_phases", "rank_places", "rank_work")

MIN_STAGE_EXCESS = 0.03
"""Votes begin here and are full at twice this; layers do not divide more evenly than by a few
percent."""

LEAST_MEDIAN = 0.05
"""The median of an episode: a stage of 20 layers or fewer that holds one more is beyond it."""

MOST_BY_STANDING_STILL = 0.5
"""Others on the same cores evict the caches of a process and keep the other thread of its core
busy: its CPU time grows by up to a half. What is longer by more is more work."""

_FEWEST_STAGES = 3
_AS_LONG = 0.8
"""A stage with this share of the longest one's excess is named with it."""


@dataclass(frozen=True)
class _Stages:
    """P stages, S steps: x of the median of the other stages, less 1."""

    stage_P: Ints
    num_ranks_P: Ints
    work_PS: Floats  # ms of the quickest rank
    excess_PS: Floats


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    work = work_of(tables)
    if missing := steps_missing(NAME, work.step_S.size):
        return Verdict(NAME, not_enough=missing)
    times = phase_times(tables)
    if times.waits_hidden:
        reason = (
            "Ranks wait inside the timer of their compute: which stage computes longer is unknown."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    stages = _stages(work)
    if stages is None:
        reason = "Fewer than two pipeline stages are known: none to compare."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    still_PS = standing_still_of(times, stages.stage_P)
    typical_PS = typical_compute(work, stages.stage_P, tables["op_times"])
    found: list[Finding] = []
    set_aside: list[str] = []
    for row, episode in _longest(stages):
        if _stands_still(stages, still_PS, row, episode):
            set_aside.append(_other_text(work, stages, row, episode, _KEPT))
        elif not _in_most_spans(stages, typical_PS, row, episode):
            set_aside.append(_other_text(work, stages, row, episode, _WAITS))
        else:
            found.append(_finding(work, stages, row, episode, attempt))
    findings = tuple(found)
    percent = f"{100 * LEAST_MEDIAN:.0f} %"
    if stages.stage_P.size >= _FEWEST_STAGES:
        which = f"No {'other ' if findings else ''}stage of {stages.stage_P.size}"
        checked = f"{which} took longer than the others by {percent}."
    else:  # compared with what their ratio was: _apart
        which = "No other stage" if findings else "Neither of the 2 stages"
        checked = f"{which} became {percent} slower, relative to the other, during the run."
    return Verdict(NAME, findings, checked, _apart(work, stages), tuple(set_aside))


def _stands_still(stages: _Stages, still_PS: Floats, row: int, episode: Episode) -> bool:
    """Whether a stage stands still for longer than it computes longer, each beyond the others, and
    computes longer by no more than that may bring.
    """
    if episode.excess > MOST_BY_STANDING_STILL:
        return False
    span = slice(episode.first, episode.last + 1)
    others_PS = medians_of_others(still_PS, np.ones(stages.stage_P.size, np.bool_))
    longer_S = stages.work_PS[row] * stages.excess_PS[row] / (1 + stages.excess_PS[row])
    return middle((still_PS - others_PS)[row, span]) > middle(longer_S[span])


def _in_most_spans(stages: _Stages, typical_PS: Floats, row: int, episode: Episode) -> bool:
    """Whether most spans of the stage are longer, not only the last before it waits for others, by
    at least _OF_SPANS of its excess; True where that is unknown, or it has no others to wait for.
    """
    if stages.num_ranks_P[row] == 1:
        return True
    excess_PS = _excess(stages.stage_P, typical_PS)
    in_spans = middle(excess_PS[row, episode.first : episode.last + 1])
    return not in_spans < _OF_SPANS * episode.excess


_OF_SPANS = 0.5


def _other_text(work: Work, stages: _Stages, row: int, episode: Episode, why: str) -> str:
    first, last = (int(work.step_S[at]) for at in (episode.first, episode.last))
    return (
        f"Stage {stages.stage_P[row]} computes {1 + episode.excess:.2f}x as long as the others in "
        f"{steps_text(first, last)}, {why}"
    )


_KEPT = (
    "and stands still without CPU time for longer than that: what keeps a process from its cores "
    "lengthens its CPU time, too, so this may not be its work."
)
_WAITS = (
    "but only some of its spans are longer: its ranks may wait in them for others, so this may not "
    "be its work."
)


def _apart(work: Work, stages: _Stages) -> tuple[NotEnoughData, ...]:
    """Where two stages have always differed it is not known which of them is usual: nothing to call
    a healthy job noteworthy for."""
    if stages.stage_P.size >= _FEWEST_STAGES:
        return ()
    levels_P = [level_before(row_S) for row_S in stages.work_PS]
    quick, long = np.argsort(levels_P)
    ratio = levels_P[long] / levels_P[quick]
    if not ratio >= 1 + 2 * LEAST_MEDIAN:
        return ()
    reason = (
        f"Stage {stages.stage_P[long]} computes {ratio:.2f}x as long as stage "
        f"{stages.stage_P[quick]} since step {work.step_S[0]}: with only two stages it is unknown "
        "which one is normal; compare their layers, or compare with a good run."
    )
    return (NotEnoughData(NAME, reason),)


def _stages(work: Work) -> _Stages | None:
    pp_R = work.ranks.coords_R["pp"]
    stage_P = np.unique(pp_R[pp_R >= 0])
    if stage_P.size < 2:
        return None
    quickest = []
    for stage in stage_P:
        rows_RS = work.work_RS[pp_R == stage]
        least_S = np.where(np.isfinite(rows_RS), rows_RS, np.inf).min(axis=0)
        quickest.append(np.where(np.isfinite(least_S), least_S, np.nan))
    work_PS = np.array(quickest)
    num_ranks_P = np.array([int((pp_R == stage).sum()) for stage in stage_P])
    return _Stages(stage_P, num_ranks_P, work_PS, _excess(stage_P, work_PS))


def _excess(stage_P: Ints, work_PS: Floats) -> Floats:
    """x of the median of the other stages, less 1; of two stages relative to before."""
    others_PS = medians_of_others(work_PS, np.ones(stage_P.size, np.bool_))
    ratio_PS = work_PS / others_PS
    if stage_P.size < _FEWEST_STAGES:  # one that grows quicker makes the other no longer
        before_PS = work_PS / np.array([[level_before(row_S)] for row_S in work_PS])
        ratio_PS = ratio_PS / np.array([[level_before(row_S)] for row_S in ratio_PS])
        ratio_PS = np.minimum(ratio_PS, before_PS)
    return ratio_PS - 1


def _longest(stages: _Stages) -> list[tuple[int, Episode]]:
    """Episodes of stages that set the pace meanwhile, beyond what stages swing by."""
    longest: list[tuple[int, Episode]] = []
    threshold_P = np.full(stages.stage_P.size, MIN_STAGE_EXCESS)
    for row, excess_S in enumerate(stages.excess_PS):
        jumps = np.abs(np.diff(excess_S)) / np.sqrt(2)
        noise = NOISE_MADS * middle(jumps)
        threshold_P[row] = max(noise, MIN_STAGE_EXCESS) if np.isfinite(noise) else MIN_STAGE_EXCESS
        for episode in episodes(excess_S, float(threshold_P[row])):
            span = slice(episode.first, episode.last + 1)
            most = max(middle(other_S[span]) for other_S in stages.excess_PS)
            later = stages.num_ranks_P[row] == 1 and episode.first >= MIN_VOTES
            if episode.excess >= max(LEAST_MEDIAN, _AS_LONG * most) and not later:
                longest.append((row, episode))
    spans = [(row, episode.first, episode.last) for row, episode in longest]
    beyond = no_swings(stages.excess_PS, np.zeros(stages.stage_P.size, np.int64), spans)
    longest = [longest[index] for index in sorted(beyond)]
    return lasting_or_calm(stages.excess_PS, threshold_P, longest)


def _finding(work: Work, stages: _Stages, row: int, episode: Episode, attempt: int) -> Finding:
    stage, first, last = (
        int(stages.stage_P[row]),
        int(work.step_S[episode.first]),
        int(work.step_S[episode.last]),
    )
    span = slice(episode.first, episode.last + 1)
    own_ms = middle(stages.work_PS[row, span])
    longer_ms = own_ms * episode.excess / (1 + episode.excess)
    step_ms = middle(work.step_ms_RS[:, span])
    share = min(longer_ms / step_ms, 1.0) if step_ms > 0 else 0.0
    ongoing = work.step_S.size - 1 - episode.last < OVER_AFTER_STEPS
    since = when_text(first, last, ongoing)
    title = f"Pipeline stage {stage} takes longer than the others"
    return Finding(
        kind="slow_stage",
        attempt=attempt,
        severity=("urgent" if share >= URGENT_SHARE else "warning") if ongoing else "past",
        confidence="medium" if stages.num_ranks_P[row] == 1 else "high",
        title=title,
        text=f"The compute of all its ranks takes {1 + episode.excess:.2f}x as long as in the "
        f"other stages {since}; the whole pipeline goes at its pace.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        slowdown=round(1 + episode.excess, 4),
        cost=cost_of(longer_ms, step_ms, last - first + 1, work.ranks.rank_R.size),
        evidence=_evidence(work, stages, row, episode, attempt),
        alternatives=_alternatives(stages, row),
        next_step="Move layers from this stage to others, or put fewer next to the embedding and "
        "the loss; if its layers are as many as elsewhere, compare its hosts.",
        stages=(stage,),
        cause=f"{title}: it has more work, and the others stand still in bubbles.",
    )


def _alternatives(stages: _Stages, row: int) -> tuple[str, ...]:
    hosts = "All hosts of the stage are slower than others."
    if stages.num_ranks_P[row] == 1:
        return (
            "A slow device (slow worker): the stage has one rank, so its work and its device "
            "cannot be distinguished.",
        )
    return (hosts,)


def _evidence(
    work: Work, stages: _Stages, row: int, episode: Episode, attempt: int
) -> tuple[Evidence, ...]:
    first, last = int(work.step_S[episode.first]), int(work.step_S[episode.last])
    span = slice(episode.first, episode.last + 1)
    times = ", ".join(
        f"{stage}: {middle(work_S[span]):,.1f}"
        for stage, work_S in zip(stages.stage_P, stages.work_PS, strict=True)
    )
    params = question_params(first, last, attempt)
    shown = int(np.flatnonzero(work.ranks.coords_R["pp"] == stages.stage_P[row])[0])
    link = pipeline_view(work.ranks, shown, attempt, first_two(first, last))
    return (
        Evidence(
            f"Its quickest rank computes {1 + episode.excess:.2f}x as long as the median of the "
            f"other stages in {steps_text(first, last)}.",
            round(1 + episode.excess, 4),
            "x",
            "rank_work",
            params,
            link,
        ),
        Evidence(
            f"Compute of the quickest rank of each stage, ms per step: {times}.",
            round(middle(stages.work_PS[row, span]), 3),
            "ms",
            "rank_work",
            params,
            link,
        ),
    )

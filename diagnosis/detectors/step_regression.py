"""step_regression: since some step the whole job computes longer than it did before.

All ranks compute longer than their own level in earlier steps (diagnosis/statistics/onsets.py).
Where one named operation makes up the rise, slow_op finds it and this detector does not; where
micro-batches have held uneven work since then, or since shortly before, there is more work, and the
rise is set aside. So it is where one rank has come late since then, or where compute holds waiting
for other ranks and forwards by themselves have not risen: who computes longer is another question.
Where ranks wait for cores, only a rise of their CPU time by a quarter or more counts.

Source: jobs at least 1.1 times
as long as without stragglers count as straggling (what-if study, 2505.05713). Assumes: steps are
meant to take equally long. Known false positives: more work on purpose (longer sequences, a larger
batch from some step on). Blind spots: a job that is slow from its first steps on, which only a
baseline shows. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from diagnosis.detectors.sequence_imbalance import uneven_since_then
from diagnosis.detectors.slow_op import op_behind
from diagnosis.findings import Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS, Episode
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.late_ranks import MAIN_SHARE, Late, late_by, meet
from diagnosis.statistics.onsets import (
    MIN_RISE,
    SHARED_RISE,
    Onset,
    checked_text,
    evidence_of,
    not_comparable,
    onsets,
    wall_share,
)
from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import Work, work_of
from diagnosis.statistics.phase_findings import Lost, Words, finding_of
from diagnosis.statistics.phase_times import (
    PhaseTimes,
    kept_from_cores,
    middle,
    middles,
    phase_times,
)
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.step_levels import (
    WARM_UP_STEPS,
    Rise,
    is_sure,
    rises,
    takes_longer,
    without,
)
from diagnosis.statistics.units import named_ranks

NAME = "step_regression"
KINDS = ("step_regression",)
QUESTIONS = ("microbatch_work", "op_times", "rank_phases", "rank_places", "rank_work")

LEAST_UNEVEN = 0.25
"""Of a rise of the mean: what work that is drawn again varies by at least."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := not_comparable(NAME, times):
        return Verdict(NAME, not_enough=missing)
    kept = kept_from_cores(times)
    found = onsets(times, MIN_RISE if kept is None else SHARED_RISE)
    longer = rises(times.window_S) if found else []
    by_itself = [
        onset
        for onset in found
        if _takes_longer(times.window_S, longer, onset.episode)
        and op_behind(times, tables["op_times"], onset) is None
    ]
    if not by_itself and kept is not None:
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, kept),))
    if not by_itself:
        checked = _ELSE_IN_ORDER if found else checked_text(times)
        return Verdict(NAME, checked=checked, of_data=True)  # says nothing of single ranks
    uneven = uneven_since_then(tables, times)
    lates = late_by(times, _REASONS)
    work = own_work(work_of(tables))
    why_not = {onset: _why_not(times, onset, uneven, lates, work) for onset in by_itself}
    findings = tuple(
        _finding(times, onset, _cause(times, onset, lates), attempt)
        for onset, why in why_not.items()
        if not why
    )
    set_aside = tuple(filter(None, why_not.values()))
    other = _ELSE_IN_ORDER.replace("No step", "No other step")
    in_order = None if findings else other
    return Verdict(NAME, findings, in_order, set_aside=set_aside, of_data=True)


def _takes_longer(window_S: Floats, longer: Sequence[Rise], episode: Episode) -> bool:
    """Whether steps are longer than before; the warm-up says nothing of that, nor do other rises
    of step times.
    """
    first, last = episode.first - WARM_UP_STEPS, episode.last - WARM_UP_STEPS
    usual_S = without(window_S, longer, episode)
    return first > 0 and takes_longer(usual_S[WARM_UP_STEPS:], first, last)


def _why_not(
    times: PhaseTimes,
    onset: Onset,
    uneven: Sequence[Episode],
    lates: Sequence[Late],
    work: Work,
) -> str:
    """What compute rose for on all ranks that is no change of the whole job; '' of none."""
    longer, since = f"{1 + onset.episode.excess:.2f}x as long", times.step_S[onset.episode.first]
    if any(_began_with(onset, work_onset) for work_onset in uneven):
        return (
            f"All ranks compute {longer} from step {since} on, where micro-batches hold uneven "
            "work: more of it."
        )
    if any(_waits_for(times, onset, late) for late in lates):
        return (
            f"Compute takes {longer} on all ranks from step {since} on, when a rank began to come "
            "late: its timer may hold waiting for that rank."
        )
    if _is_waiting(work, times, onset):
        return (
            f"Compute takes {longer} on all ranks from step {since} on and forwards do not: it "
            "holds waiting for others."
        )
    return ""


def _began_with(onset: Onset, uneven: Episode) -> bool:
    """Whether work became uneven when compute rose, or before, and is so meanwhile, by enough to be
    the reason.
    """
    began = onset.episode.first
    is_meanwhile = uneven.first <= began + OVER_AFTER_STEPS and began <= uneven.last
    return is_meanwhile and uneven.excess >= LEAST_UNEVEN * onset.episode.excess


def _waits_for(times: PhaseTimes, onset: Onset, late: Late) -> bool:
    """Whether a rank began to come late when compute rose, by as much as half of the rise."""
    began_apart = abs(late.episode.first - onset.episode.first)
    return began_apart <= OVER_AFTER_STEPS and late.share >= MAIN_SHARE * wall_share(times, onset)


def _is_waiting(work: Work, times: PhaseTimes, onset: Onset) -> bool:
    """Whether compute holds waiting for other ranks, and forwards alone have risen by less than
    half as much.
    """
    if work.measure != "forward":
        return False
    first, last = (times.step_S[at] for at in (onset.episode.first, onset.episode.last))
    own_S = middles(work.work_RS)
    before = middle(own_S[work.step_S < first])
    risen = middle(own_S[(work.step_S >= first) & (work.step_S <= last)]) / before - 1
    return not risen >= onset.episode.excess / 2


def _finding(times: PhaseTimes, onset: Onset, cause: str, attempt: int) -> Finding:
    lost = Lost((), onset.episode, wall_share(times, onset), 0)
    episode = onset.episode
    sure = is_sure(lost.share, episode.last - episode.first + 1)
    words = replace(_WORDS, cause=cause, confidence="high" if sure else "medium")
    if not _holds_no_waiting(times):
        words = replace(words, title=_TIMER_LONGER)
    finding = finding_of(times, lost, attempt, words)
    return replace(
        finding,
        slowdown=round(1 + onset.episode.excess, 4),
        evidence=(evidence_of(times, onset, finding), *finding.evidence),
    )


def _cause(times: PhaseTimes, onset: Onset, lates: Sequence[Late]) -> str:
    """That no rank is the reason only where none comes late meanwhile, and compute is known to hold
    no waiting for one.
    """
    late = [late.row for late in lates if meet(late.episode, onset.episode)]
    if late:
        who = named_ranks(sorted(set(times.ranks.rank_R[late].tolist())))
        return (
            f"{_LONGER}. Whether that is waiting for {who}, late meanwhile, inside the timer of "
            "compute does not show."
        )
    if _holds_no_waiting(times):
        return f"{_LONGER}, so no rank and no link is the reason."
    if times.ranks.rank_R.size == 1:
        return f"{_LONGER}: only one was recorded, and whether it waits for others does not show."
    return (
        f"{_LONGER}. Whether they wait for one of them inside the timer of compute does not show: "
        "ranks differ too little, or are too few."
    )


def _holds_no_waiting(times: PhaseTimes) -> bool:
    """Whether compute is known to hold no waiting for other ranks."""
    return times.hidden.get("compute", 1.0) <= BORDER


_REASONS = ("data", "compute", "stretch", "rest")
_ELSE_IN_ORDER = (
    "No step since which the job as a whole computes longer, its steps take longer, and no one "
    "operation makes up the difference."
)
_LONGER = "All ranks compute longer than earlier in the run"
_TIMER_LONGER = "Compute takes longer on all ranks than before"
_WORDS = Words(
    "step_regression",
    "The whole job computes longer than before",
    "to longer compute on all ranks",
    f"{_LONGER}.",
    (
        "More work on purpose: longer sequences, a larger batch, another phase of training.",
        "Devices that all slow down together (power cap, heat), or a clock of all hosts.",
    ),
    "Look at what changed at that step (data, schedule, evaluation), and at power and clocks of "
    "the devices; compare the phases before and after on the overview.",
)

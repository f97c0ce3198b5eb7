"""step_regression: steps of the whole job are longer than before, and nothing shows why.

Whatever the reason, steps that take 5 % longer for 20 steps or 25 % for three in a row are worth
a finding (diagnosis/statistics/step_levels.py). It names nobody: where another finding explains
these steps, that one is kept instead (diagnosis/one_cause/whole_job.py).

Source: the rule is ours. Assumes: steps are meant to take equally long. Known false positives: more
work on purpose. Blind spots: a job that is slow from its first steps on, which only a baseline
shows; a level that falls and rises again. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Verdict, cost_of
from diagnosis.statistics.episodes import OVER_AFTER_STEPS
from diagnosis.statistics.evidence_links import first_two, pipeline_view, question_params
from diagnosis.statistics.phase_findings import URGENT_SHARE, steps_missing
from diagnosis.statistics.phase_times import PhaseTimes, middles, phase_times
from diagnosis.statistics.step_levels import (
    FEWEST_SHORT,
    FEWEST_STEPS,
    LEAST_RISE,
    SHORT_RISE,
    Rise,
    is_sure,
    rises,
    trimmed_mean,
)
from diagnosis.statistics.units import in_ms, steps_text, when_text

NAME = "job_slower"
KINDS = ("step_regression",)
QUESTIONS = ("rank_phases", "rank_places")

_PHASES = {
    "compute": "compute",
    "stretch": "compute without CPU time",
    "data": "waiting for data",
    "gc": "garbage collections",
    "checkpoint": "checkpoints",
    "rest": "time that no recorded phase covers",
}


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    findings = tuple(_finding(times, rise, attempt) for rise in rises(times.window_S))
    other = "other " if findings else ""
    checked = (
        f"No {other}{FEWEST_STEPS} steps or more in a row are {100 * LEAST_RISE:.0f} % longer than "
        f"those before them, nor {FEWEST_SHORT} by {100 * SHORT_RISE:.0f} %, beyond what steps of "
        "this job swing by."
    )
    return Verdict(NAME, findings, checked, of_data=True)  # says nothing of single ranks


def _finding(times: PhaseTimes, rise: Rise, attempt: int) -> Finding:
    first, last = int(times.step_S[rise.first]), int(times.step_S[rise.last])
    ongoing = times.step_S.size - 1 - rise.last < OVER_AFTER_STEPS
    longer_ms = rise.now_ms - rise.before_ms
    urgent = longer_ms / rise.now_ms >= URGENT_SHARE
    grown = _grown(times, rise)
    where = "" if grown is None else f"; most of it lies in {_PHASES.get(grown[0], grown[0])}"
    since = when_text(first, last, ongoing)
    are = "are" if ongoing else "were"
    return Finding(
        kind="step_regression",
        attempt=attempt,
        severity=("urgent" if urgent else "warning") if ongoing else "past",
        confidence=_confidence(rise),
        title=f"Steps {are} longer than before",
        text=f"Steps {are} longer {since}{where}. {_unknown(times)}",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        slowdown=round(1 + rise.excess, 4),
        cost=cost_of(longer_ms, rise.now_ms, last - first + 1, times.ranks.world_size),
        evidence=_evidence(times, rise, grown, attempt),
        alternatives=(
            "More work on purpose: longer sequences, a larger batch, another phase of training.",
            "Load on all hosts, a power cap, a slower network: no rank stands out by these.",
        ),
        next_step="Look at what changed at that step (data, schedule, other jobs, power and clocks "
        "of the devices), and record the job with hooks if these are phase timers.",
        cause="The steps of all ranks are longer; which rank, link or change is behind it does not "
        "show.",
    )


def _confidence(rise: Rise) -> str:
    return "high" if is_sure(rise.excess, rise.last - rise.first + 1) else "medium"


def _unknown(times: PhaseTimes) -> str:
    """Why no rank and no link is named."""
    hiding = [name for name in times.hidden if times.hides(name)]
    if hiding:
        return (
            f"The cause is not identifiable: ranks wait for each other inside the timer of "
            f"{_PHASES.get(hiding[0], hiding[0])}, so a rank that spends longer there looks like "
            "all others, and no finding on a rank explains most of it."
        )
    return "The cause is not identifiable: no finding on a rank, stage or link explains most of it."


def _grown(times: PhaseTimes, rise: Rise) -> tuple[str, float] | None:
    """The phase that takes most of what the median rank's steps are longer by, and how much."""
    span, before = slice(rise.first, rise.last + 1), slice(max(rise.first - 50, 0), rise.first)
    more = {}
    for name in _PHASES:
        level_S = middles(times.phases[name])
        more[name] = _mean(level_S[span]) - _mean(level_S[before])
    name = max(more, key=lambda name: np.nan_to_num(more[name]))
    return (name, more[name]) if more[name] >= (rise.now_ms - rise.before_ms) / 2 else None


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else 0.0


def _evidence(
    times: PhaseTimes, rise: Rise, grown: tuple[str, float] | None, attempt: int
) -> tuple[Evidence, ...]:
    first, last = int(times.step_S[rise.first]), int(times.step_S[rise.last])
    params = question_params(first, last, attempt)
    own_RS = np.nan_to_num(times.self_RS[:, rise.first : rise.last + 1])
    row = int(own_RS.mean(axis=1).argmax())
    link = pipeline_view(times.ranks, row, attempt, first_two(first, last))
    now_ms = trimmed_mean(times.window_S[rise.first : rise.last + 1])
    evidence = [
        Evidence(
            f"Steps take {in_ms(now_ms)} in {steps_text(first, last)}, a mean without the longest "
            f"and shortest tenth; {in_ms(rise.before_ms)} is usual before or around them.",
            round(now_ms, 3),
            "ms",
            "rank_phases",
            params,
            link,
        )
    ]
    if grown is not None:
        evidence.append(
            Evidence(
                f"The median rank has {in_ms(grown[1])} per step more of "
                f"{_PHASES.get(grown[0], grown[0])} than before.",
                round(grown[1], 3),
                "ms per step",
                "rank_phases",
                params,
                link,
            )
        )
    return tuple(evidence)

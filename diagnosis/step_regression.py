"""step_regression: since some step the whole job computes longer than it did before.

All ranks compute longer than their own level in earlier steps (diagnosis/rises.py). Where one named
operation makes up the rise, slow_op tells it and this detector does not.

Source: order of decision of the fault list ("whole-population slowness"); jobs at least 1.1 times
as long as without stragglers count as straggling (what-if study, 2505.05713). Assumes: steps are
meant to take equally long. Known false positives: more work on purpose (longer sequences, a larger
batch from some step on). Blind spots: a job that is slow from its first steps on, which only a
baseline shows. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from diagnosis.findings import Finding, Verdict
from diagnosis.late_finding import Lost, Words, finding_of
from diagnosis.own_time import OwnTimes, own_times
from diagnosis.rises import Rise, checked_text, evidence_of, not_comparable, rises, wall_share
from diagnosis.slow_op import op_behind

NAME = "step_regression"
QUESTIONS = ("op_times", "rank_phases", "rank_places")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = own_times(tables["rank_phases"], tables["rank_places"])
    if missing := not_comparable(NAME, times):
        return Verdict(NAME, not_enough=missing)
    found = tuple(
        _finding(times, rise, attempt) for rise in rises(times)
        if op_behind(times, tables["op_times"], rise) is None
    )  # fmt: skip
    return Verdict(NAME, found, None if found else checked_text(times))


def _finding(times: OwnTimes, rise: Rise, attempt: int) -> Finding:
    lost = Lost((), rise.episode, wall_share(times, rise), 0)
    found = finding_of(times, lost, attempt, _WORDS)
    return replace(
        found, slowdown=round(1 + rise.episode.excess, 4),
        evidence=(evidence_of(times, rise, found), *found.evidence),
    )  # fmt: skip


_WORDS = Words(
    "step_regression",
    "The whole job computes longer than before",
    "to compute that all ranks have more of than before",
    "All ranks compute longer than earlier in the run, so no rank and no link is the reason.",
    (
        "More work on purpose: longer sequences, a larger batch, another phase of training.",
        "Devices that all slow down together (power cap, heat), or a clock of all hosts.",
    ),
    "Look at what changed at that step (data, schedule, evaluation), and at power and clocks of "
    "the devices; compare the phases before and after on the overview.",
    confidence="medium",
)

"""data_gaps: rows of a rank are missing in the middle of the recording, or there twice.

Collectives of a group are numbered on every member: a number that one member skips and others have
is a lost row, one that it has again a duplicate; steps that most ranks have and one lacks between
two of its own were lost as a whole. What lies before a rank's first row or behind its last one was
perhaps never recorded and is no gap; the newest steps may still be on their way.

Source: the rule is ours: sequence gaps per rank. Assumes: recorders number what they record
(hooks, NCCL). Known false positives: none of rows; a rank that skips a step on purpose looks as if
it had lost it. Blind spots: rows lost on all members; tables without numbers (spans); data that
came late and is complete by now. Cost: one pass over the rollup of collectives, rows only where
counts differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS
from diagnosis.statistics.evidence_links import first_two, question_params, timeline_view
from diagnosis.statistics.phase_findings import steps_missing
from diagnosis.statistics.rank_tables import Ints, placed
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.units import steps_text

NAME = "data_gaps"
KINDS = ("data_gaps",)
QUESTIONS = ("data_gaps", "rank_phases", "rank_places")

_MOST_NAMED = 8


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    steps = pc.unique(tables["rank_phases"]["step"])
    if missing := steps_missing(NAME, len(steps)):
        return Verdict(NAME, not_enough=missing)
    step_S = np.sort(steps.to_numpy())
    newest = step_S[-OVER_AFTER_STEPS]
    gaps = tables["data_gaps"].filter(pc.field("step") < int(newest))
    if not gaps.num_rows:
        checked = "No rank skips or repeats a step or collective that the others recorded once."
        return Verdict(NAME, checked=checked, of_data=True)
    return Verdict(NAME, (_finding(gaps, tables["rank_places"], step_S, attempt),))


def _finding(gaps: pa.Table, places: pa.Table, step_S: Ints, attempt: int) -> Finding:
    whole = pc.is_null(gaps["group_id"])
    num_steps = pc.sum(gaps.filter(whole)["num_lost"]).as_py() or 0
    parts = gaps.filter(pc.invert(whole))
    lost, twice = (pc.sum(parts[name]).as_py() or 0 for name in ("num_lost", "num_twice"))
    rank_R = np.unique(gaps["rank"].to_numpy()).astype(np.int64)
    ranks = placed(rank_R, places)
    first, last = pc.min(gaps["step"]).as_py(), pc.max(gaps["step"]).as_py()
    ongoing = bool(step_S[-1] - last < 2 * OVER_AFTER_STEPS)
    counts = [
        f"{number:,} {what}"
        for number, what in (
            (num_steps, "whole steps lost"),
            (lost, "collectives lost"),
            (twice, "there twice"),
        )
        if number
    ]
    named = ", ".join(map(str, rank_R[:_MOST_NAMED].tolist()))
    more = f" and {rank_R.size - _MOST_NAMED} others" if rank_R.size > _MOST_NAMED else ""
    who = f"Rank{'s' if rank_R.size > 1 else ''} {named}{more}"
    return Finding(
        kind="data_gaps",
        attempt=attempt,
        severity="warning" if ongoing else "past",
        confidence="high",
        title=f"Data of {who[0].lower()}{who[1:]} have gaps",
        text=f"{', '.join(counts)} between step {first} and {last}; other members of the same "
        "groups have them once.",
        culprits=tuple(place_of(ranks, row) for row in range(rank_R.size)),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=_evidence(counts, (num_steps + lost + twice), first, last, attempt, rank_R),
        alternatives=(
            "Dropped by the hooks (its heartbeats count that), lost on the way, or a file that was "
            "removed or copied twice: the rows do not distinguish them.",
        ),
        next_step="Look at the rank's dropped rows on the overview and at its files in segments/; "
        "findings on these ranks and steps rest on what is left.",
        cause=f"{who}: rows in the middle of the recording are missing or there twice.",
    )


def _evidence(
    counts: list[str], number: int, first: int, last: int, attempt: int, rank_R: Ints
) -> tuple[Evidence, ...]:
    shown = int(rank_R[0])
    params = question_params(first, last, attempt)
    link = timeline_view(attempt, shown, (shown,), first_two(first, last))
    return (
        Evidence(
            f"Numbers of collectives and steps in {steps_text(first, last)}: {', '.join(counts)}.",
            number,
            "rows",
            "data_gaps",
            params,
            link,
        ),
    )

"""What the banner, the shared file and the list of runs say of a run without a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.analysis.run_diagnosis import RunDiagnosis, unjudged
from diagnosis.detectors import dead_rank, first_error, stuck
from diagnosis.findings import Diagnosis

SILENT = {
    "silent": "Nothing has arrived from some of the ranks for more than 10 s.",
    "lost": "Nothing arrives any more from the ranks that have not finished.",
}
"""States of a run in which nothing is known of what its ranks do."""

_WHY_NOT = (*first_error.KINDS, *stuck.KINDS, *dead_rank.KINDS)
_NO_CAUSE = "The page Stuck shows what the ranks do; no reason for a finding was seen so far."


@dataclass(frozen=True)
class Headline:
    """Title and text; `tone`: calm, warning or unknown, the class of its style; `page`: that shows
    more, None the drawer does.
    """

    tone: str
    title: str
    text: str
    page: str | None = None


def headline(diagnosis: Diagnosis, state: str = "finished") -> Headline:
    """Calm only where all that the run records was judged, nothing stood out, and the steps on the
    page are like the others. `state`: of the run.
    """
    if isinstance(diagnosis, RunDiagnosis) and diagnosis.waits:
        text = " ".join(filter(None, (diagnosis.waits, SILENT.get(state), _NO_CAUSE)))
        return Headline("warning", "Ranks wait", text, page="stuck")
    if not diagnosis.judged:
        missing = diagnosis.not_enough[0].missing if diagnosis.not_enough else "Nothing to judge."
        return Headline("unknown", "Not enough data", missing)
    in_order = _in_order(diagnosis.checked)
    if unusual := _unusual(diagnosis, state):
        text = " ".join([unusual, *diagnosis.set_aside, in_order])
        return Headline("warning", "No slow rank found, but not all is well", text)
    if diagnosis.set_aside:
        text = " ".join([*diagnosis.set_aside, in_order])
        return Headline("unknown", "Noted, no finding", text)
    could_not, _ = unjudged(diagnosis)
    if could_not:
        text = f"{_first(could_not)} {in_order}"
        return Headline("warning", "No slow rank found, but not everything could be judged", text)
    return Headline("calm", "No slow rank", in_order)


def only_waits(diagnosis: Diagnosis) -> bool:
    """Whether ranks wait now for a reason that no finding names."""
    if not isinstance(diagnosis, RunDiagnosis) or not diagnosis.waits:
        return False
    return not any(finding.kind in _WHY_NOT for finding in diagnosis.findings)


def is_stuck(diagnosis: Diagnosis) -> bool:
    """Whether ranks wait, or a finding says why they do or what became of them."""
    acting = {finding.kind for finding in diagnosis.findings if finding.ongoing}
    return only_waits(diagnosis) or not acting.isdisjoint(_WHY_NOT)


def _unusual(diagnosis: Diagnosis, state: str) -> str:
    unusual = diagnosis.unusual if isinstance(diagnosis, RunDiagnosis) else ""
    return " ".join(filter(None, (unusual, SILENT.get(state))))


def _first(sentences: Sequence[str]) -> str:
    """The first sentence and how many more there are."""
    number = len(sentences) - 1
    others = "There is 1 more reason." if number == 1 else f"There are {number} more reasons."
    return f"{sentences[0]} {others}" if number else sentences[0]


def _in_order(checked: Sequence[str]) -> str:
    """The first sentence and how many more there are: the drawer lists them all."""
    if len(checked) < 2:
        return " ".join(checked)
    others = "1 other check" if len(checked) == 2 else f"{len(checked) - 1} other checks"
    return f"{checked[0]} {others} found nothing either."

"""What the banner, the shared file and the list of runs say of a run without a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnosis.findings import Diagnosis


@dataclass(frozen=True)
class Headline:
    """Title and text; `tone`: calm or unknown, the class of its style."""

    tone: str
    title: str
    text: str


def headline(diagnosis: Diagnosis) -> Headline:
    """Calm only where something was judged and nothing stood out."""
    if not diagnosis.judged:
        missing = diagnosis.not_enough[0].missing if diagnosis.not_enough else "Nothing to judge."
        return Headline("unknown", "Not enough data", missing)
    in_order = _in_order(diagnosis.checked)
    if diagnosis.set_aside:
        text = " ".join([*diagnosis.set_aside, in_order])
        return Headline("unknown", "Noted, no finding", text)
    return Headline("calm", "No slow rank", in_order)


def _in_order(checked: Sequence[str]) -> str:
    """The first sentence and how many more there are: the drawer lists them all."""
    if len(checked) < 2:
        return " ".join(checked)
    others = "1 other check" if len(checked) == 2 else f"{len(checked) - 1} other checks"
    return f"{checked[0]} {others} found nothing either."

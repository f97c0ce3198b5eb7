"""What each finding of a run costs: the list on the what-if page and of `rankscope whatif`."""

from __future__ import annotations

from typing import Any

from diagnosis.cost_text import cost_line
from diagnosis.findings import Diagnosis, Finding

HEADING = "What findings cost, each in its own steps"
NONE = "There is no finding whose cost is known."


def with_cost(diagnosis: Diagnosis) -> list[Finding]:
    """The findings whose cost is known, the most urgent and costly first."""
    return [finding for finding in diagnosis.findings if finding.cost is not None]


def costs_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The list in words; `id` names the finding in links."""
    costs = [
        {"id": finding.id, "title": finding.title, "text": cost_line(finding)}
        for finding in with_cost(diagnosis)
    ]
    return {"heading": HEADING, "costs": costs, "none": NONE}


def costs_lines(diagnosis: Diagnosis) -> list[str]:
    """The list as lines of text."""
    costs = [
        f"           {finding.title}: {cost_line(finding)}" for finding in with_cost(diagnosis)
    ]
    return [HEADING, *(costs or [f"           {NONE}"])]

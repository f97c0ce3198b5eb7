"""The tile of what a finding costs: the numbers that stand in its text."""

from __future__ import annotations

from app.views.run.kpi import Kpi
from diagnosis.cost_text import basis_text, cost_steps_text, hours_text, share_text
from diagnosis.findings import Finding
from diagnosis.statistics.units import in_ms

_MEANING = (
    "By how much the steps of the job are longer than without the finding, on average over its "
    "steps; times steps and ranks, the hours that all ranks lost. Measured against steps without "
    "any finding near it; where these are too few or too noisy, the detector's estimate."
)


def kpi_of_cost(finding: Finding, is_on_page: bool = True) -> Kpi | None:
    """The tile; None where the cost is unknown. `is_on_page`: the page shows this finding."""
    cost = finding.cost
    if cost is None:
        return None
    value, unit = in_ms(cost.ms_per_step).rsplit(" ", 1)
    hours = f"{hours_text(cost.rank_hours)} in {cost_steps_text(finding)}; {basis_text(cost)}"
    return Kpi(
        "cost",
        "Cost of the finding",
        value,
        f"{unit} per step",
        f"{share_text(cost.share)} of step time",
        f"{finding.title}. {_MEANING}",
        "bad" if finding.ongoing else "plain",
        extra=hours if is_on_page else f"{finding.title}: {hours}",
    )

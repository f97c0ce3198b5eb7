"""The cost of a finding in words: the same numbers, rounded alike, wherever one is given.

Banner, drawer, tiles, What-if, the command line and shared files take their words from here.
"""

from __future__ import annotations

from diagnosis.findings import ESTIMATED, MEASURED, Cost, Finding
from diagnosis.statistics.units import in_ms, steps_text

_LEAST_HOURS, _LEAST_MS = 0.00001, 0.05
_BASIS = {
    MEASURED: "measured against steps without it",
    ESTIMATED: "estimated",
}


def cost_text(cost: Cost, ongoing: bool) -> str:
    """One sentence: by how much the steps of the job are longer for it."""
    take = "take" if ongoing else "took"
    if cost.ms_per_step < _LEAST_MS:
        return f"Steps {take} no longer for it, as far as can be measured."
    about = "about " if cost.basis == ESTIMATED else ""
    return (
        f"Steps {take} {about}{in_ms(cost.ms_per_step)} longer for it, "
        f"{share_text(cost.share)} of their time."
    )


def share_text(share: float) -> str:
    """A share in percent: without decimals from 1 % on."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 1 or not percent else f"{percent:.1g} %"


def hours_text(rank_hours: float) -> str:
    """Rank-hours with two significant digits; whole ones from 10 on, and no zero for little."""
    if rank_hours >= 10:
        return f"{rank_hours:,.0f} rank-hours"
    if 0 < rank_hours < _LEAST_HOURS:
        return f"less than {_LEAST_HOURS:.5f} rank-hours"
    rounded = f"{float(f'{rank_hours:.2g}'):.5f}".rstrip("0").rstrip(".")
    return f"{rounded} rank-hour{'' if rounded == '1' else 's'}"


def basis_text(cost: Cost) -> str:
    """How it was found, of which time."""
    return f"wall time, {_BASIS[cost.basis]}"


def cost_steps_text(finding: Finding) -> str:
    """The steps that it means: of a finding that came and went also how many these are."""
    all_of_them = steps_text(finding.first_step, finding.last_step)
    num_steps = finding.cost.num_steps if finding.cost else 0
    if num_steps >= finding.last_step - finding.first_step + 1:
        return all_of_them
    return f"{num_steps:,} of {all_of_them}"


def cost_line(finding: Finding) -> str:
    """All of it in one line; nothing where it is unknown."""
    cost = finding.cost
    if cost is None:
        return ""
    return (
        f"{in_ms(cost.ms_per_step)} per step, {share_text(cost.share)} of step time; "
        f"{hours_text(cost.rank_hours)} in {cost_steps_text(finding)}; {basis_text(cost)}"
    )

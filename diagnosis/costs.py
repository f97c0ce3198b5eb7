"""What findings cost: how much longer the steps of the job are than without them.

The mean step with a finding less the mean step without any, of the same run and near it, where
there are such steps and the difference is beyond their noise. Where others always act in its steps,
it is compared with steps in which the same ones act without it; where there are none, what steps
are longer by is divided as the findings' own estimates are. Elsewhere the estimate of the detector
stands: by how much its ranks come late, or how long it lasts.

Every place that gives a cost reads the one of the finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.cost_text import cost_text
from diagnosis.findings import MEASURED, Cost, Diagnosis, Evidence, Finding
from diagnosis.one_cause.episodes import steps_of
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.step_levels import WARM_UP_STEPS
from diagnosis.statistics.units import in_ms

Spans = Sequence[tuple[float, float]]
"""First and last steps, both included; the last is infinite where it goes on."""

FEWEST_WITHOUT, MOST_WITHOUT = 5, 50
"""Steps without any finding on each side of one: so few at least in all, and so many at most."""

_FEWEST_ALONE, _ENOUGH_ALONE = 4, 8
_CLIPPED = 3.0
"""A step counts as at most so many median ones: one save or one hang is no level."""


@dataclass(frozen=True)
class _Compared:
    """Steps with a finding and without it, of which others act in neither or in both; else `part`
    of the difference is its own.
    """

    with_S: Bools
    without_S: Bools
    is_free: bool
    """no other finding acts in those without it"""
    part: float = 1.0


@dataclass(frozen=True)
class Without:
    """The steps that a cost was measured against, and their mean."""

    steps: _Compared
    mean_ms: float

    @property
    def sentence(self) -> str:
        """How long they take, after how long those of the finding do."""
        num = int(self.steps.without_S.sum())
        which = "without any finding" if self.steps.is_free else "with the other findings alone"
        text = f"{num} steps near it {which} {in_ms(self.mean_ms)}"
        if self.steps.part >= 1.0:
            return text
        share = 100 * self.steps.part
        return f"{text}; {share:.0f} % of the difference is this one's, the rest that of others"


def with_costs(diagnosis: Diagnosis, step_S: Ints, step_ms_S: Floats) -> Diagnosis:
    """Every finding with its cost measured where that is possible, and a sentence on it."""
    flat = diagnosis.findings
    by_id = {id(f): _stated(f, measured(f, flat, step_S, step_ms_S)) for f in flat}
    return diagnosis.with_findings(lambda finding: by_id[id(finding)])


def measured(
    finding: Finding, findings: Sequence[Finding], step_S: Ints, step_ms_S: Floats
) -> tuple[Cost | None, Without | None]:
    """Its cost, and the steps that it was measured against; None where it is estimated."""
    cost = finding.cost
    if cost is None:
        return None, None
    within_S = _within(steps_of(finding), step_S)
    if within_S.any():  # numbers may be left out: a log of every tenth step
        cost = replace(cost, num_steps=int(within_S.sum()))
    if cost.basis == MEASURED:
        return cost, None
    others = others_with_cost(finding, findings)
    known_S = np.isfinite(step_ms_S)
    compared = _compared(finding, others, step_S, within_S & known_S, ~within_S & known_S)
    if compared is None:
        return cost, None
    all_ms, error_ms = _longer(step_ms_S[compared.with_S], step_ms_S[compared.without_S])
    longer_ms = all_ms * compared.part
    if 2 * error_ms >= max(longer_ms, cost.ms_per_step):
        return cost, None
    step_ms = float(step_ms_S[compared.with_S].mean())
    longer_ms = round(min(max(longer_ms, 0.0), step_ms), 3)
    step_ms = max(round(step_ms, 3), longer_ms)
    found = replace(cost, ms_per_step=longer_ms, step_ms=step_ms, basis=MEASURED)
    return found, Without(compared, step_ms - max(all_ms, 0.0))


def _compared(
    finding: Finding, others: Sequence[Finding], step_S: Ints, own_S: Bools, rest_S: Bools
) -> _Compared | None:
    """Steps of a finding that differ from steps near it by this finding alone; if there are none,
    all of them and steps without any finding. None where too few are known.
    """
    acts_OS = np.array([_within(steps_of(other), step_S) for other in others], np.bool_)
    acts_OS = acts_OS.reshape(len(others), step_S.size)
    is_free_S: Bools = np.logical_not(acts_OS.any(axis=0))
    set_S: Ints = np.unique(acts_OS, axis=1, return_inverse=True)[1]
    same_OS: list[Bools] = [np.equal(set_S, number) for number in np.unique(set_S[own_S])]
    free_first = sorted(same_OS, key=lambda s: (not is_free_S[s].all(), -(own_S & s).sum()))
    for same_S in free_first:
        with_S, without_S = own_S & same_S, _near(rest_S & same_S, own_S)
        is_much = with_S.sum() >= max(_FEWEST_ALONE, min(own_S.sum() / 4, _ENOUGH_ALONE))
        if is_much and without_S.sum() >= FEWEST_WITHOUT:
            return _Compared(with_S, without_S, bool(is_free_S[same_S].all()))
    without_S = _near(rest_S & is_free_S, own_S)
    if without_S.sum() < FEWEST_WITHOUT or not own_S.any():
        return None
    return _Compared(own_S, without_S, True, _part(finding, others, own_S, step_S))


def others_with_cost(finding: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """The other findings that make steps longer."""
    return [f for f in findings if f is not finding and f.cost is not None and f.cost.ms_per_step]


def steps_without(own: Spans, others: Spans, step_S: Ints) -> Bools:
    """The steps near a finding that lie neither in it nor in others: those to compare with."""
    own_S = _within(own, step_S)
    return _near(~own_S & ~_within(others, step_S), own_S)


def _within(spans: Spans, step_S: Ints) -> Bools:
    within_S = np.zeros(step_S.shape, np.bool_)
    for first, last in spans:
        within_S |= (step_S >= first) & (step_S <= last)
    return within_S


def _near(free_S: Bools, own_S: Bools) -> Bools:
    """The steps before the first and after the last of its own, and between its episodes."""
    at = np.flatnonzero(own_S)
    free = np.flatnonzero(free_S)
    free = free[free >= WARM_UP_STEPS]
    near_S = np.zeros_like(free_S)
    if at.size:
        inside = free[(free >= at[0]) & (free <= at[-1])]
        near = np.concatenate(
            (free[free < at[0]][-MOST_WITHOUT:], inside, free[free > at[-1]][:MOST_WITHOUT])
        )
        near_S[near] = True
    return near_S


def _longer(with_N: Floats, without_N: Floats) -> tuple[float, float]:
    """Difference of the means, and its standard error."""
    with_N = np.minimum(with_N, _CLIPPED * np.median(with_N))
    without_N = np.minimum(without_N, _CLIPPED * np.median(without_N))
    error = np.sqrt(with_N.var() / with_N.size + without_N.var() / without_N.size)
    return float(with_N.mean() - without_N.mean()), float(error)


def _part(finding: Finding, others: Sequence[Finding], own_S: Bools, step_S: Ints) -> float:
    """Its share of what the findings of these steps are estimated to cost."""
    own = finding.cost.ms_per_step * int(own_S.sum()) if finding.cost else 0.0
    rest = sum(
        other.cost.ms_per_step * int((_within(steps_of(other), step_S) & own_S).sum())
        for other in others
        if other.cost is not None
    )
    return own / (own + rest) if own + rest > 0 else 1.0


def _stated(finding: Finding, known: tuple[Cost | None, Without | None]) -> Finding:
    cost, without = known
    if cost is None:
        return finding
    evidence = finding.evidence
    if without is not None:
        params = question_params(finding.first_step, finding.last_step, finding.attempt)
        evidence += (
            Evidence(
                f"Steps with it take {in_ms(cost.step_ms)} on average, {without.sentence}.",
                round(cost.step_ms, 3),
                "ms",
                "rank_phases",
                params,
                finding.evidence[0].view,
            ),
        )
    text = f"{finding.text} {cost_text(cost, finding.ongoing)}"
    return replace(finding, cost=cost, text=text, evidence=evidence)

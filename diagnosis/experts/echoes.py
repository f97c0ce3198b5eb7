"""Ranks that compute longer because their experts have more tokens are not slow by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from diagnosis.experts.holders import Holders
from diagnosis.findings import Finding
from diagnosis.statistics.phase_times import PhaseTimes, middle, middles

CAUSES = ("hot_expert", "expert_imbalance")
ECHOES = ("slow_worker", "sequence_imbalance", "slow_op")

EQUALLY = 1.05
"""A rank that computes so many times as long as others with the same experts is slow by itself."""

_EARLIER = 3
"""So many steps before the experts a slow rank may have begun; its onset is not exact."""

_MOST = 3.0
"""A rank that costs more than so many times what its experts do has another cause, too. In an EP
group of two it is ahead of its peer by twice what balance would save."""

Against = Callable[[int, int, int], float]
"""Of a rank and the first and last step: its compute / that of the ranks with the same experts, the
median of them and of the steps; NaN without any."""


def unknown(_rank: int, _first_step: int, _last_step: int) -> float:
    """Of a job whose other holders are not known."""
    return math.nan


def against_fellows(times: PhaseTimes, holders: Holders) -> Against:
    """The comparison, by the phases of the steps."""

    def against(rank: int, first_step: int, last_step: int) -> float:
        meant_S = (times.step_S >= first_step) & (times.step_S <= last_step)
        compute_R = middles(times.phases["compute"][:, meant_S].T)
        rank_R = times.ranks.rank_R
        own = middle(compute_R[rank_R == rank])
        others = middle(compute_R[np.isin(rank_R, list(holders.fellows(rank)))])
        return own / others if others > 0 else math.nan

    return against


def of_full_experts(
    findings: Sequence[Finding], against: Against = unknown
) -> dict[int, Finding | str | None]:
    """Findings on ranks whose experts are given too many tokens, by index, with a sentence why."""
    causes = [finding for finding in findings if finding.kind in CAUSES and finding.cost]
    return {
        index: f"{finding.title}: {cause.title[0].lower()}{cause.title[1:]}."
        for index, finding in enumerate(findings)
        for cause in causes
        if finding.kind in ECHOES and _explains(cause, finding, against)
    }


def _explains(cause: Finding, finding: Finding, against: Against) -> bool:
    ranks = {place.rank for place in finding.culprits}
    holders = {place.rank for place in cause.culprits}
    if not ranks or not ranks <= holders or finding.first_step < cause.first_step - _EARLIER:
        return False
    if finding.first_step > cause.last_step or cause.cost is None:
        return False
    if finding.cost is not None and finding.cost.ms_per_step > _MOST * cause.cost.ms_per_step:
        return False
    steps = max(finding.first_step, cause.first_step), min(finding.last_step, cause.last_step)
    return not any(against(rank, *steps) > EQUALLY for rank in ranks)

"""Ranks that compute longer because their experts have more tokens are not slow by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.findings import Finding

CAUSES = ("hot_expert", "expert_imbalance")
ECHOES = ("slow_worker", "sequence_imbalance", "slow_op")

_EARLIER = 3
"""So many steps before the experts a slow rank may have begun; its onset is not exact."""

_MOST = 3.0
"""A rank that costs more than so many times what its experts do has another cause, too. In an EP
group of two it is ahead of its peer by twice what balance would save."""


def of_full_experts(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Findings on ranks whose experts are given too many tokens, by index, with a sentence why."""
    causes = [finding for finding in findings if finding.kind in CAUSES and finding.cost]
    return {
        index: f"{finding.title}: {cause.title[0].lower()}{cause.title[1:]}."
        for index, finding in enumerate(findings)
        for cause in causes
        if finding.kind in ECHOES and _explains(cause, finding)
    }


def _explains(cause: Finding, finding: Finding) -> bool:
    ranks = {place.rank for place in finding.culprits}
    holders = {place.rank for place in cause.culprits}
    if not ranks or not ranks <= holders or finding.first_step < cause.first_step - _EARLIER:
        return False
    if finding.first_step > cause.last_step or cause.cost is None:
        return False
    return finding.cost is None or finding.cost.ms_per_step <= _MOST * cause.cost.ms_per_step

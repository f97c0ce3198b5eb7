"""What findings cost in traces whose operations are known: the replay with and without them.

That a rank computes 80 ms longer lengthens no step by 80 ms where it would have waited for another
one anyway, as in a pipeline whose micro-batches are uneven. Where every operation was recorded, the
replay (diagnosis/whatif) answers what a step takes with this finding and what without: with all
other findings mended, so that two that act in the same steps have a cost each, as the causes of
the what-if analysis do.

What is mended: compute of slow ranks and stages, and transfers of slow links and networks of
replicas, are divided by their slowdown in the steps of the finding. Shape suffixes: O operations,
S steps, D replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from diagnosis.findings import Diagnosis, Evidence, Finding
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Bools, Floats
from diagnosis.statistics.straggler_cells import CELLS
from diagnosis.statistics.units import in_ms
from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.optypes import COMPUTE, POINT_TO_POINT
from diagnosis.whatif.replay import Scenarios, step_times

KINDS = ("slow_worker", "slow_stage", "slow_link", "slow_dp_network")

MOST_REPLAYED = 10
"""Each costs one replay; more findings than that are not listed."""

URGENT_SHARE = 0.03
"""What costs less is not urgent: below S = 1.03 attribution means nothing (2505.05713)."""


def with_replayed_costs(diagnosis: Diagnosis, prepared: Prepared) -> Diagnosis:
    """Findings of KINDS with the cost that the replay gives, and a sentence on it."""
    known = [f for f in diagnosis.findings if _can_be_replayed(f)][:MOST_REPLAYED]
    cells = {id(finding): _mended(prepared, finding) for finding in known}
    if not known:
        return diagnosis
    all_S = _step_s(prepared, known, cells)
    changed = {}
    for finding in known:
        others = [other for other in known if other is not finding]
        longer_S = _step_s(prepared, others, cells) - all_S
        changed[id(finding)] = _with_cost(prepared, finding, longer_S)
    return diagnosis.with_findings(lambda finding: changed.get(id(finding), finding))


def _can_be_replayed(finding: Finding) -> bool:
    return finding.kind in KINDS and finding.cost is not None and (finding.slowdown or 0.0) > 1.0


def _mended(prepared: Prepared, finding: Finding) -> Bools:
    """Which operations are its own, (O, D)."""
    ops = prepared.ops
    ranks = [place.rank for place in finding.culprits]
    is_rank_PD = np.isin(ops.rank_PD, ranks)
    is_rank_PD[list(finding.stages)] |= not ranks
    of_cells_OD: Bools = is_rank_PD[ops.stage_O]
    if finding.kind in ("slow_worker", "slow_stage"):
        is_compute_O = np.isin(ops.type_O, _codes(prepared, COMPUTE))
        return of_cells_OD & is_compute_O[:, None]
    own_OD = np.zeros_like(of_cells_OD)
    p2p = set(_codes(prepared, POINT_TO_POINT))
    for node in prepared.graph.nodes:
        members = list(node.ops)
        is_pair = len(members) == 2 and int(ops.type_O[members[0]]) in p2p
        is_network = node.over_dp and len({int(ops.stage_O[op]) for op in members}) == 1
        if is_pair if finding.kind == "slow_link" else is_network:
            own_OD[members] = of_cells_OD[members].all(axis=0)
    return own_OD


def _codes(prepared: Prepared, names: Iterable[str]) -> list[int]:
    return [code for code, name in enumerate(prepared.ops.optypes) if name in names]


def _step_s(prepared: Prepared, mended: Sequence[Finding], cells: dict[int, Bools]) -> Floats:
    """Length of every step with these findings mended, s."""
    own_OSD = prepared.own_OSD.copy()
    for finding in mended:
        factor_S = np.where(_within(prepared, finding), 1 / (finding.slowdown or 1.0), 1.0)
        own_OSD *= np.where(cells[id(finding)][:, None], factor_S[:, None], 1.0)
    everywhere = Scenarios(1, [(0,)] * len(prepared.ideal_O))
    times_S: Floats = step_times(prepared.graph, own_OSD, prepared.ideal_O, everywhere)[0][0]
    return times_S


def _within(prepared: Prepared, finding: Finding) -> Bools:
    within_S = np.zeros(prepared.ops.step_S.shape, np.bool_)
    for first, last in finding.episodes or ((finding.first_step, finding.last_step),):
        within_S |= (prepared.ops.step_S >= first) & (prepared.ops.step_S <= last)
    return within_S


def _with_cost(prepared: Prepared, finding: Finding, longer_S: Floats) -> Finding:
    within_S = _within(prepared, finding)
    if finding.cost is None or not within_S.any():
        return finding
    longer_ms = max(1e3 * float(longer_S[within_S].mean()), 0.0)
    cost = replace(finding.cost, ms_per_step=round(min(longer_ms, finding.cost.step_ms), 3))
    evidence = Evidence(
        f"Replayed with it alone, steps are {in_ms(cost.ms_per_step)} longer on average than "
        "without any finding: the rest of what it takes longer hides behind other waiting.",
        cost.ms_per_step,
        "ms per step",
        CELLS,
        question_params(finding.first_step, finding.last_step, finding.attempt),
        finding.evidence[0].view,
    )
    is_small = finding.severity == "urgent" and cost.share < URGENT_SHARE
    severity = "warning" if is_small else finding.severity
    return replace(finding, cost=cost, severity=severity, evidence=(*finding.evidence, evidence))

"""Which metric of the Ranks page shows a finding: grid, heat map and tiles switch to it."""

from __future__ import annotations

from app.views.ranks.scales import METRICS
from diagnosis.findings import Diagnosis, Finding

OF_KIND = {
    "slow_worker": "slowdown",
    "slow_stage": "compute",
    "slow_op": "compute",
    "sequence_imbalance": "compute",
    "hot_expert": "compute",
    "expert_imbalance": "compute",
    "ping_pong_starved": "exposed_comm",
    "jit_spikes": "compute",
    "allocator_stalls": "compute",
    "data_loader": "data_wait",
    "source_starved": "data_wait",
    "loader_memory": "data_wait",
    "loader_standby": "data_wait",
    "launch_skew": "wait_caused",
    "host_contention": "wait_caused",
    "stopped_process": "wait_caused",
    "gc_pauses": "bubble",
    "slow_checkpoint": "bubble",
    "monitor_overhead": "bubble",
    "data_gaps": "not_visible",
    "slow_link": "exposed_comm",
    "slow_node_link": "exposed_comm",
    "slow_dp_network": "exposed_dp",
    "slow_host": "exposed_comm",
    "many_hosts_slow": "exposed_comm",
    "link_flap": "exposed_comm",
    "comm_regression": "exposed_comm",
    "step_regression": "step_time",
}
"""Where no evidence of the finding names a metric; kinds of the model and of clocks have none."""


def metric_of_finding(finding: Finding) -> str | None:
    """The metric that its evidence names, else that of its kind; None: no metric shows it."""
    named = (dict(evidence.view).get("metric") for evidence in finding.evidence)
    return next((name for name in named if name in METRICS), OF_KIND.get(finding.kind))


def metrics_of(diagnosis: Diagnosis) -> dict[str, str]:
    """The metric of each finding that has one, by the id of the finding."""
    found = {finding.id: metric_of_finding(finding) for finding in diagnosis.findings}
    return {finding_id: metric for finding_id, metric in found.items() if metric is not None}

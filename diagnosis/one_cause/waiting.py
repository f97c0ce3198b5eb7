"""Findings on whom another finding keeps waiting, or from sending."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.findings import Finding
from diagnosis.one_cause.episodes import NEAR_STEPS, num_steps, overlap, shared_steps, steps_of
from diagnosis.one_cause.hosts import OF_HOSTS

_SLOW_NETWORK_OF_HOSTS = ("slow_host", "many_hosts_slow")


def waiting_for_hosts(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Who computes longer or starts late for waiting for other hosts, with a sentence: ranks that
    launch asynchronously wait in the middle of their compute or in no span.
    """
    return {
        index: f"{finding.title}: it may wait for {_hosts_named(slow)} meanwhile."
        for index, finding in enumerate(findings)
        for slow in findings
        if _may_wait(finding, slow)
    }


def _may_wait(finding: Finding, slow: Finding) -> bool:
    """Whether whole hosts may wait for the transfers of others; ranks that start late from the step
    on from which they are slow; or hosts that do so from when another is kept from its cores.
    """
    if _hosts(finding) & set(slow.hosts) or not overlap(finding, slow):
        return False
    begin_together = abs(finding.first_step - slow.first_step) <= NEAR_STEPS
    starts_late = finding.kind == "launch_skew" and begin_together
    if slow.kind in _SLOW_NETWORK_OF_HOSTS:
        is_slow_host = finding.hosts and finding.kind in ("slow_worker", "launch_skew")
        return bool(is_slow_host) or starts_late
    return slow.kind == OF_HOSTS and bool(slow.hosts and finding.hosts) and starts_late


def _hosts_named(network: Finding) -> str:
    return ", ".join(network.hosts) or "other hosts"


def of_held_hosts(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Ranks that come late on a host that is kept from its cores, and the same host as a slow one:
    they are part of that.
    """
    return {
        index: None
        for index, finding in enumerate(findings)
        for whole in findings
        if whole.kind == OF_HOSTS and whole.hosts
        if _is_of_held(finding, whole)
        if overlap(finding, whole)
    }


def _is_of_held(finding: Finding, whole: Finding) -> bool:
    if finding.hosts:
        return finding.kind == "slow_worker" and finding.hosts == whole.hosts
    is_late = finding.kind in (OF_HOSTS, "launch_skew")
    return is_late and len(_hosts(finding)) > 0 and _hosts(finding) <= set(whole.hosts)


_HELD = ("host_contention", "stopped_process")
_BETWEEN = ("slow_link", "slow_dp_network", "link_flap")
_LINKS = ("slow_node_link", "slow_host", *_BETWEEN)


def links_of_held_ranks(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Slow links of a host whose ranks do not run, with a sentence: they cannot send."""
    held = [finding for finding in findings if finding.kind in _HELD]
    return {
        index: f"{finding.title}: {cause.title[0].lower()}{cause.title[1:]}."
        for index, finding in enumerate(findings)
        for cause in held
        if finding.kind in _LINKS and _ends_at(finding, cause) and _lies_in(finding, cause)
    }


def _lies_in(finding: Finding, cause: Finding) -> bool:
    """Whether most of its steps are those of the cause: what was slow before is not for it."""
    return 2 * num_steps(shared_steps(finding, cause)) > num_steps(steps_of(finding))


def _ends_at(link: Finding, held: Finding) -> bool:
    """Whether it is a link of the hosts of `held`, or of one of them with another host."""
    ends, hosts = _hosts(link), _hosts(held)
    return bool(ends & hosts) if link.kind in _BETWEEN else ends == hosts


def _hosts(finding: Finding) -> set[str]:
    """Of what it names."""
    return set(finding.hosts) | {p.host for p in finding.culprits if p.host is not None}

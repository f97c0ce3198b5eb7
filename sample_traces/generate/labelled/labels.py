"""What a diagnosis should find of a planted fault, and whether the data allow it at all.

Made from the job and its faults alone, before any detector has seen the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sample_traces.generate.faults import KINDS, OF_THE_MODEL, SyntheticFault
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob, cell, host_name
from sample_traces.generate.simulation.effects_network import across, on_switch_of

MIN_PEERS = 3
"""Fewer others do not show who is the exception (metrics: slowdown)."""

MIN_PAST = 6
"""Steps before the fault that show what was usual."""

MIN_LOOKS = 8
"""Steps with statistics of the model before a fault of it that show what was usual."""


@dataclass(frozen=True)
class Label:
    """One planted fault as a finding should name it; `why_not`: why the data do not allow that.

    `ranks`: none where a stage or the whole job is meant. Steps are both included. `job_ranks`: how
    many the job has. `also`: other kinds that fit as well. `planted`: what was planted, where that
    is no kind of a finding. `or_nobody`: a finding that names no rank and no host is right, too.
    `culprits`: who really is at fault, where the data do not show it: naming them is not wrong.
    """

    kind: str
    ranks: tuple[int, ...]
    stages: tuple[int, ...]
    hosts: tuple[str, ...]
    first_step: int
    last_step: int
    why_not: str = ""
    job_ranks: int = 0
    also: tuple[str, ...] = ()
    planted: str = ""
    or_nobody: bool = False
    culprits: tuple[int, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of a finding that are right."""
        return (self.kind, *self.also)

    @property
    def is_identifiable(self) -> bool:
        """Whether a diagnosis can be expected to find it."""
        return not self.why_not


def label_of(job: SyntheticJob, fault: SyntheticFault, has_baseline: bool = False) -> Label:
    """The label of one fault of the job, `has_baseline`: a healthy run of it can be compared."""
    ranks, stages, hosts = _place(job, fault)
    hit = [step for step in range(job.steps_completed) if fault.hits(step)] or [fault.first_step]
    why_not = _WHY_NOT.get(fault.kind, _always)(job, fault)
    if has_baseline and fault.kind in NEEDS_BASELINE:
        why_not = ""
    first, last = (job.resumed_at + step for step in (hit[0], hit[-1]))
    or_nobody = fault.kind == "many_hosts_slow" and not _shows_which_hosts(job, fault)
    label = Label(fault.kind, ranks, stages, hosts, first, last, why_not, job.num_ranks)
    return replace(label, or_nobody=or_nobody)


def _place(
    job: SyntheticJob, fault: SyntheticFault
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Ranks, stages and hosts to name."""
    target, where = KINDS[fault.kind].target, fault.where
    if where is None or target == "job":
        return (), (), ()
    if target == "stage":
        return (), (where,), ()
    if target == "host":
        hosts = on_switch_of(job, where) if fault.kind == "many_hosts_slow" else [where]
        ranks = [rank for rank in range(job.num_ranks) if rank // RANKS_PER_HOST in hosts]
        return tuple(ranks), (), tuple(host_name(host * RANKS_PER_HOST) for host in hosts)
    if fault.kind in ("slow_link", "link_flap"):
        return (where, where + job.dp * job.tp), (), ()
    if fault.kind == "slow_dp_network":
        p, _, t = cell(job, where)
        first = p * job.dp * job.tp + t
        return tuple(range(first, first + job.dp * job.tp, job.tp)), (p,), ()
    return (where,), (), ()


WhyNot = Callable[[SyntheticJob, SyntheticFault], str]


def _always(job: SyntheticJob, fault: SyntheticFault) -> str:
    return ""


def _has_past(fault: SyntheticFault) -> bool:
    return fault.first_step >= MIN_PAST


def _slow_worker(job: SyntheticJob, fault: SyntheticFault) -> str:
    if job.dp * job.tp > MIN_PEERS:
        return ""
    if job.num_ranks <= MIN_PEERS:
        return "fewer than three other ranks to compare with"
    return "" if _has_past(fault) else "fewer than three peers, and slow from the first step on"


def _slow_stage(job: SyntheticJob, fault: SyntheticFault) -> str:
    if job.dp * job.tp == 1:
        return "one rank per stage: its layers and its device look the same"
    if job.pp == 2 and not _has_past(fault):
        return "two stages from the first step on: which one is usual is not known"
    return ""


def _few(num_similar: Callable[[SyntheticJob], int], least: int, what: str) -> WhyNot:
    """Too few ranks or hosts of one sort to show the exception, unless there is a past."""

    def why_not(job: SyntheticJob, fault: SyntheticFault) -> str:
        if num_similar(job) >= least or _has_past(fault):
            return ""
        return f"fewer than {least} {what}, and slow from the first step on"

    return why_not


def _hosts(job: SyntheticJob, fault: SyntheticFault) -> str:
    """Whether the slow transfers are those of one host, or one switch, and of no other."""
    switches = [on_switch_of(job, host) for host in range(job.num_hosts)]
    meant = fault.where or 0
    host_sets = [(host,) for host in range(job.num_hosts)] + [tuple(hosts) for hosts in switches]
    own = (meant,) if fault.kind == "slow_host" else tuple(switches[meant])
    slow = across(job, own)
    if sum(int(part.sum()) for part in slow) < 2:
        return "fewer than two transfers to other hosts"
    others = [across(job, host_set) for host_set in set(host_sets) if host_set != own]
    if any(slow.same_as(other) for other in (*others, across(job, range(job.num_hosts)))):
        return "other hosts have the same slow transfers"
    return ""


def _shows_which_hosts(job: SyntheticJob, fault: SyntheticFault) -> bool:
    """Whether no host can be left out, or be another one, with the same slow transfers."""
    meant = set(on_switch_of(job, fault.where or 0))
    slow = across(job, meant)
    for host in meant:
        rest = meant - {host}
        others = [rest, *(rest | {other} for other in set(range(job.num_hosts)) - meant)]
        if any(slow.same_as(across(job, hosts)) for hosts in others):
            return False
    return True


def _everywhere(job: SyntheticJob, fault: SyntheticFault) -> str:
    return "" if _has_past(fault) else "equally slow everywhere from the first step on, no baseline"


def _own_past(job: SyntheticJob, fault: SyntheticFault) -> str:
    return "" if fault.first_step >= MIN_LOOKS else "no step before it shows what was usual"


NEEDS_BASELINE = ("comm_regression", "step_regression")

_WHY_NOT: dict[str, WhyNot] = {
    "slow_worker": _slow_worker,
    "slow_stage": _slow_stage,
    "slow_link": _few(lambda job: (job.pp - 1) * job.dp * job.tp, MIN_PEERS + 1, "links"),
    "slow_dp_network": _few(lambda job: job.pp * job.tp, 3, "groups of replicas"),
    "slow_node_link": _few(lambda job: job.num_hosts, 3, "hosts"),
    "slow_host": _hosts,
    "many_hosts_slow": _hosts,
    "comm_regression": _everywhere,
    "step_regression": _everywhere,
    "slow_op": _everywhere,
    **dict.fromkeys(OF_THE_MODEL, _own_past),
}
"""What is seen by itself (data waits, collections, CPU time, clocks) needs no comparison."""

"""What faults of links, hosts' networks and switches do to the transfers of a synthetic job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sample_traces.generate.durations import MS, Durations
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob, cell, on_host

Random = np.random.Generator
Effect = Callable[[Durations, SyntheticJob, SyntheticFault, slice, Random], None]
Bools = npt.NDArray[np.bool_]

HOSTS_PER_SWITCH = 3


class Transfers(NamedTuple):
    """Some of a job's transfers: links from a stage to the next, groups of replicas."""

    link_PDT: Bools
    group_PT: Bools

    def same_as(self, other: Transfers) -> bool:
        """Whether both are the same transfers."""
        return all(np.array_equal(mine, theirs) for mine, theirs in zip(self, other, strict=True))


def across(job: SyntheticJob, hosts: Iterable[int]) -> Transfers:
    """Transfers between any of these hosts and any other host."""
    host_PDT = (np.arange(job.num_ranks) // RANKS_PER_HOST).reshape(job.pp, job.dp, job.tp)
    meant_PDT = np.isin(host_PDT, list(hosts))
    link_PDT = np.zeros_like(meant_PDT)
    link_PDT[:-1] = (host_PDT[:-1] != host_PDT[1:]) & (meant_PDT[:-1] | meant_PDT[1:])
    many_PT = host_PDT.min(axis=1) != host_PDT.max(axis=1)
    return Transfers(link_PDT, many_PT & meant_PDT.any(axis=1))


def on_switch_of(job: SyntheticJob, host: int) -> range:
    """Hosts on the switch that a host is on."""
    first = host // HOSTS_PER_SWITCH * HOSTS_PER_SWITCH
    return range(first, min(first + HOSTS_PER_SWITCH, job.num_hosts))


def _slow_link(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    p, *lane = cell(job, fault.where or 0)
    d.pp_forward_SPDT[steps, p, *lane] *= fault.dose
    d.pp_backward_SPDT[steps, p + 1, *lane] *= fault.dose


def _slow_node_link(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    d.tp_SPD[steps] *= np.where(on_host(job, fault.where or 0).any(axis=-1), fault.dose, 1.0)


def _slow_dp_network(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    p, _d, t = cell(job, fault.where or 0)
    for transfer in (d.gather_SPT, d.scatter_SPT):
        transfer[steps, p, t] *= fault.dose


def _comm_regression(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    for transfer in (
        d.tp_SPD,
        d.pp_forward_SPDT,
        d.pp_backward_SPDT,
        d.gather_SPT,
        d.scatter_SPT,
        d.norm_S,
    ):
        transfer[steps] *= fault.dose


def _slow_host(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    _slow_down(d, across(job, [fault.where or 0]), steps, fault.dose)


def _many_hosts_slow(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    _slow_down(d, across(job, on_switch_of(job, fault.where or 0)), steps, fault.dose)


def _slow_down(d: Durations, slow: Transfers, steps: slice, factor: float) -> None:
    link_PDT = np.where(slow.link_PDT, factor, 1.0)
    d.pp_forward_SPDT[steps] *= link_PDT
    d.pp_backward_SPDT[steps, 1:] *= link_PDT[:-1]
    for transfer in (d.gather_SPT, d.scatter_SPT):
        transfer[steps] *= np.where(slow.group_PT, factor, 1.0)


def _link_flap(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    hit = [step for step in range(steps.start, steps.stop) if fault.hits(step)]
    d.flap_SPDT[hit, *cell(job, fault.where or 0)] += fault.dose * MS


NETWORK_EFFECTS: dict[str, Effect] = {
    "slow_link": _slow_link,
    "slow_node_link": _slow_node_link,
    "slow_dp_network": _slow_dp_network,
    "comm_regression": _comm_regression,
    "slow_host": _slow_host,
    "many_hosts_slow": _many_hosts_slow,
    "link_flap": _link_flap,
}

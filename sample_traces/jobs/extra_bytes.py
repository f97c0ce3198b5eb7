"""Slow links: more bytes move inside the collectives of some groups, and nobody is shown them.

The methods of ProcessGroup are wrapped before the hooks wrap them: in each call, the members first
reduce a payload over a gloo backend of their own, which the hooks do not see. So a collective takes
longer from its last member's start on, however late anybody came, and its recorded bytes stay the
same. Collectives that C++ issues (DTensor's, DDP's) take no longer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from sample_traces.jobs.faults import Fault

KINDS = ("slow-link", "slow-network")

TIMEOUT = timedelta(minutes=5)

_METHODS = (
    "allreduce",
    "_allgather_base",
    "all_gather_single",
    "_reduce_scatter_base",
    "reduce_scatter_single",
)
"""Of ProcessGroup; no torch version has all of them."""


class ExtraBytes:
    """More bytes for the collectives of replicas, while a fault of KINDS is on.

    To be made before the hooks start, on every rank. `step`: gives the step that is running.
    """

    def __init__(self, faults: Sequence[Fault], mesh: DeviceMesh, step: Callable[[], int]) -> None:
        self.faults = [fault for fault in faults if fault.kind in KINDS]
        self.step = step
        self.groups: dict[frozenset[int], Any] = {}
        if not self.faults:
            return
        for ranks in _replicas(mesh):
            if dist.get_rank() in ranks and len(ranks) > 1:
                self.groups[frozenset(ranks)] = _backend(ranks)
        self._wait = dist.Work.wait
        for name in _METHODS:
            if hasattr(dist.ProcessGroup, name):
                setattr(dist.ProcessGroup, name, self._slowed(getattr(dist.ProcessGroup, name)))

    def _slowed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def slowed(group: Any, *args: Any, **kwargs: Any) -> Any:
            self._move(frozenset(dist.get_process_group_ranks(group)))
            return original(group, *args, **kwargs)

        return slowed

    def _move(self, members: frozenset[int]) -> None:
        if members not in self.groups:
            return
        for fault in self.faults:
            meant = fault.kind == "slow-network" or members == {fault.rank, fault.peer}
            if meant and fault.active(self.step()):
                payload = torch.zeros(int(fault.mb * 2**20) // 4)
                self._wait(self.groups[members].allreduce([payload]))


def _backend(ranks: list[int]) -> Any:
    """Connections between these ranks alone, in no list of groups."""
    name = "extra-bytes-" + "-".join(map(str, ranks))
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    return dist.ProcessGroupGloo(store, ranks.index(dist.get_rank()), len(ranks), TIMEOUT)


def _replicas(mesh: DeviceMesh) -> list[list[int]]:
    """Ranks of each group of replicas: of all groups of the axis dp, not only this rank's."""
    names = mesh.mesh_dim_names or ()
    by_replica: torch.Tensor = mesh.mesh.movedim(names.index("dp"), -1)
    return by_replica.reshape(-1, by_replica.shape[-1]).tolist()

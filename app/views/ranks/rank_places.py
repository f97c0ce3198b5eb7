"""The ranks of an attempt with their hosts and coordinates.

Shape suffix: R rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from app.views.ranks.scales import Ints
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.layout import EXPERT_AXES, ParallelLayout

AXES = ("pp", "dp", "cp", "tp")


@dataclass(frozen=True)
class Places:
    """Ranks in order; -1 is an unknown coordinate."""

    rank_R: Ints
    hosts: list[str]
    coords: dict[str, Ints]
    """pp, dp, cp, tp: index on the axis"""
    experts: dict[str, Ints] = field(default_factory=dict)
    """ep, etp: index on the axis; ep_group, etp_group: number of the group along it. Only those in
    use.
    """

    @property
    def has_layout(self) -> bool:
        """Whether every rank has a coordinate on at least one axis."""
        return bool(len(self.rank_R)) and any((c >= 0).all() for c in self.coords.values())


def places(run: Run, attempt: int | None = None, stop: Stop | None = None) -> Places:
    """The ranks of an attempt (default: the newest) with their coordinates."""
    table = run.ask("rank_list", attempt=attempt, stop=stop)
    coords = {
        axis: np.asarray(table.column(axis).fill_null(-1).to_numpy()).astype(np.int64)
        for axis in AXES
    }
    rank_R = np.asarray(table.column("rank").to_numpy()).astype(np.int64)
    hosts = table.column("host").to_pylist()
    return Places(rank_R, hosts, coords, _experts(run.layout(attempt), rank_R))


def _experts(layout: ParallelLayout | None, rank_R: Ints) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    for axis in EXPERT_AXES:
        if layout is None or layout.size(axis) == 1:
            continue
        groups = layout.groups(axis)
        seats = {rank: (n, at) for n, group in enumerate(groups) for at, rank in enumerate(group)}
        seats_R = [seats.get(int(rank), (-1, -1)) for rank in rank_R]
        found[f"{axis}_group"], found[axis] = np.array(seats_R, np.int64).reshape(-1, 2).T
    return found

"""The ranks of an attempt with their hosts and coordinates.

Shape suffix: R rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.views.ranks.scales import Ints
from ingest.run import Run
from ingest.stopping import Stop

AXES = ("pp", "dp", "cp", "tp")


@dataclass(frozen=True)
class Places:
    """Ranks in order; -1 is an unknown coordinate."""

    rank_R: Ints
    hosts: list[str]
    coords: dict[str, Ints]
    """pp, dp, cp, tp: index on the axis"""

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
    return Places(rank_R, table.column("host").to_pylist(), coords)

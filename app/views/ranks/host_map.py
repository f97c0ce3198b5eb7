"""Heat map of hosts: one row per host, one column per rank in it, from the values of the grid.

Shape suffixes: R rank, H drawn row, P position in the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from app.views.ranks.grid import Grid
from app.views.ranks.heat_map import edges, row_order
from app.views.ranks.scales import Bytes, Ints

NO_RANK = 2**32 - 1


@dataclass(frozen=True)
class HostMap:
    """Bytes of scales.py by host and position; of pooled hosts the greatest byte."""

    code_HP: Bytes
    rank_HP: Ints
    """the rank of each byte; NO_RANK if a host has fewer ranks"""
    rows_H: Ints
    """edges of the drawn rows, as numbers of hosts"""
    hosts: list[str]

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for app.web.arrays.pack_arrays."""
        return {
            "code": self.code_HP.reshape(-1),
            "rank": self.rank_HP.reshape(-1).astype(np.uint32),
            "rows": self.rows_H.astype(np.uint32),
        }

    def meta(self) -> dict[str, Any]:
        """The metadata: sizes and names of hosts."""
        height, width = self.code_HP.shape
        return {"height": height, "width": width, "hosts": self.hosts}


def host_map(grid: Grid, height: int = 600) -> HostMap:
    """Hosts in their natural order, pooled to at most `height` rows."""
    order_R = row_order("host", grid.places)
    names = [grid.places.hosts[row] for row in order_R]
    begins = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
    host_R = np.repeat(np.arange(len(begins)), np.diff([*begins, len(names)]))
    place_R = np.arange(len(names)) - np.array(begins, dtype=np.int64)[host_R] if names else host_R
    shape = len(begins), int(place_R.max(initial=-1)) + 1
    code = np.zeros(shape, dtype=np.uint8)
    rank = np.full(shape, NO_RANK, dtype=np.int64)
    code[host_R, place_R] = grid.code_R[order_R]
    rank[host_R, place_R] = grid.places.rank_R[order_R]
    rows_H = edges(shape[0], height)
    furthest = [
        begin + code[begin:end].argmax(axis=0) for begin, end in pairwise(rows_H) if end > begin
    ]
    at_HP = np.array(furthest, dtype=np.int64).reshape(len(furthest), shape[1])
    places_P = np.arange(shape[1])
    return HostMap(
        code[at_HP, places_P], rank[at_HP, places_P], rows_H, [names[row] for row in begins]
    )

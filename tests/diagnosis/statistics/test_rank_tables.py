"""Answers as matrices, and where ranks sit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.statistics.rank_tables import placed, spread_cells
from tests.diagnosis.work_tables import tables
from trace_hooks.layout import ParallelLayout


def test_cells_that_have_no_row_are_unknown() -> None:
    rows = [
        {"rank": 9, "step": 4, "ms": 1},
        {"rank": 2, "step": 4, "ms": 2},
        {"rank": 2, "step": 7, "ms": None},
    ]
    rank_R, step_S, cells = spread_cells(pa.Table.from_pylist(rows))
    assert (rank_R.tolist(), step_S.tolist()) == ([2, 9], [4, 7])
    np.testing.assert_array_equal(cells["ms"], [[2, np.nan], [1, np.nan]])


def test_ranks_have_their_coordinates_and_unknown_ones_none() -> None:
    places = tables(ParallelLayout.from_sizes(pp=2, dp=2), 1, lambda rank, step: 1.0)["rank_places"]
    ranks = placed(np.array([1, 3, 8]), places)
    assert ranks.coords_R["pp"].tolist() == [0, 1, -1]
    assert ranks.coords_R["dp"].tolist() == [1, 1, -1]
    assert ranks.host_R == ["node0", "node0", None]
    assert ranks.world_size == 4
    assert ranks.has_roles
    assert not ranks.on_cpu
    assert not placed(np.array([8]), places).has_roles

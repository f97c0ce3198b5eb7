"""Cells of several ranks: what the cell takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import LAG, RANKS, Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from tests.diagnosis.whatif.test_members import replayed, two_cells


def test_a_cell_takes_what_its_slowest_member_makes_it_take() -> None:
    table, notes = recorded_operations(pa.Table.from_pylist(two_cells()), Sizes(2, 1))
    rows = {(row["optype"], row["dp"]): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    slow = rows["forward-compute", 1]
    assert slow["duration_s"] == pytest.approx(0.017)
    assert (slow["rank"], slow[RANKS]) == (2, [2, 3])
    assert slow[LAG] == pytest.approx([0.006, 0])  # rank 2 waits so long for rank 3
    assert rows["forward-compute", 0][LAG] == [0, 0]
    assert rows["optimizer", 0]["duration_s"] == pytest.approx(0.0035)
    assert rows["optimizer", 0][LAG] == pytest.approx([0.0005, 0])
    assert not [note for note in notes if "stands for all" in note]


def test_without_collectives_inside_the_first_member_stands_for_all() -> None:
    rows = [row for row in two_cells() if row["kind"] != "tp_comm"]
    table, notes = recorded_operations(pa.Table.from_pylist(rows), Sizes(2, 1))
    assert [note for note in notes if "the first of them stands for all" in note]
    assert LAG not in table.column_names
    metrics, found = replayed(rows, Sizes(2, 1))
    assert set(metrics.S_w) == {0, 2}
    assert metrics.M_W_ranks == (2,)
    assert [(cause.kind, cause.ranks) for cause in found] == [("slow_worker", (2,))]


def test_a_member_that_lacks_records_in_a_step_does_not_count_there() -> None:
    rows = two_cells()
    rows += [{**row, "step": 2, "begin_ns": row["begin_ns"] + 10**9} for row in rows]
    lost = [r for r in rows if not (r["step"] == 2 and r["rank"] == 3 and r["kind"] == "forward")]
    table, _ = recorded_operations(pa.Table.from_pylist(lost), Sizes(2, 1))
    ops = dense(table, Sizes(2, 1))
    assert ops.step_S.tolist() == [1, 2]
    assert ops.members is not None
    assert np.isnan(ops.members.lag_OSDT[:, 1, 1, 1]).all()  # nothing of rank 3 in step 2
    assert np.isfinite(ops.members.lag_OSDT[:, 0]).all()
    assert what_if(prepare(ops)).M_W_ranks == (3,)


def test_cells_of_unequal_size() -> None:
    rows = [row for row in two_cells() if row["rank"] != 1]
    metrics, _ = replayed(rows, Sizes(2, 1))
    assert set(metrics.S_w) == {0, 2, 3}
    assert metrics.M_W_ranks == (3,)

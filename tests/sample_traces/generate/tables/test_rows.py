"""Rows collected as arrays: broadcast, kept, moved to each rank's clock, sorted."""

from __future__ import annotations

import numpy as np

from sample_traces.generate.tables.rows import Rows


def test_arrays_broadcast_and_times_are_of_each_ranks_clock() -> None:
    rows = Rows("spans", np.array([0, 1_000]), attempt=2, first_step=10)
    rows.add(
        np.array([[1], [0]]),
        kind="forward",
        name="f",
        step=np.arange(2),
        ts_ns=np.array([5_000, 6_000]),
        dur_ns=7,
    )
    table = rows.to_arrow().select(["attempt", "rank", "step", "ts_ns", "dur_ns"])
    assert list(zip(*table.to_pydict().values(), strict=True)) == [
        (2, 0, 10, 5_000, 7),
        (2, 0, 11, 6_000, 7),
        (2, 1, 10, 4_000, 7),
        (2, 1, 11, 5_000, 7),
    ]


def test_only_chosen_rows_are_kept() -> None:
    rows = Rows("memory", np.zeros(2, np.int64))
    rows.add(np.arange(2), np.array([False, True]), ts_ns=1, allocated=5)
    assert rows.to_arrow().column("rank").to_pylist() == [1]


def test_nothing_is_an_empty_table() -> None:
    assert Rows("spans", np.zeros(1, np.int64)).to_arrow().num_rows == 0

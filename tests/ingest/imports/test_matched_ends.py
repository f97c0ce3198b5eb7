"""Ends of collectives that compare clocks: of a run, and of files that have no index yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.errors import UserError
from ingest.imports.matched_ends import matched_ends
from ingest.run import Run, open_run
from tests.runs_builder import T0, US, RunBuilder


def built(folder: Path) -> RunBuilder:
    run = RunBuilder(folder, 3)
    run.group(7, [0, 1, 2], "dp")
    run.group(9, [0, 1], "tp")
    for rank in range(3):
        run.collective(rank, 0, 7, 4, 10 + rank, 50 + rank)
        run.collective(rank, 0, 7, 5, 60, 70, op="broadcast")  # its root may leave early
        run.collective(rank, 0, 7, 6, 80, 90 if rank else -1)  # not over on rank 0
    run.collective(0, 0, 9, 4, 110, 120, op="all_gather")  # rank 1 did not record it
    for rank in range(2):
        run.collective(rank, 0, 9, 5, 120, 130, op="reduce_scatter")
    run.rank_files()
    run.publish()
    return run


def rows(run: Run, **values: int) -> list[dict[str, Any]]:
    return run.ask("matched_ends", **values).to_pylist()


def test_instances_that_nobody_leaves_early(tmp_path: Path) -> None:
    with open_run(built(tmp_path / "run").folder) as run:
        selected = rows(run)
    assert [(row["group_id"], row["instance"], row["rank"]) for row in selected] == [
        (7, 0, 0),
        (7, 0, 1),
        (7, 0, 2),
        (9, 1, 0),
        (9, 1, 1),
    ]
    assert [row["end_ns"] for row in selected[:3]] == [T0 + us * US for us in (50, 51, 52)]
    assert [row["spent_ns"] for row in selected] == [40 * US, 40 * US, 40 * US, 10 * US, 10 * US]


def test_enough_of_the_members_and_no_fewer(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 4)
    builder.group(7, [0, 1, 2, 3], "dp")
    builder.group(9, list(range(8)), "world")
    for rank in range(4):
        builder.collective(rank, 0, 9, 1, 10, 20)  # half
        if rank:
            builder.collective(rank, 0, 9, 2, 30, 40)  # three of eight
            builder.collective(rank, 0, 7, 1, 50, 60)  # three of four
        if rank > 1:
            builder.collective(rank, 0, 7, 2, 70, 80)  # two of four
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        found = [(row["group_id"], row["rank"], row["num_missing"]) for row in rows(run)]
    assert found == [(7, 1, 1), (7, 2, 1), (7, 3, 1), *[(9, rank, 4) for rank in range(4)]]


def test_files_without_an_index_say_the_same(tmp_path: Path) -> None:
    folder = built(tmp_path / "run").folder
    without_index = matched_ends(folder / "segments").to_pylist()
    with open_run(folder) as run:
        assert without_index == rows(run)


def test_many_instances_are_thinned_out_evenly(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2)
    builder.group(7, [0, 1], "dp")
    for rank in range(2):
        for seq in range(100):
            builder.collective(rank, seq, 7, seq, seq * 10, seq * 10 + 5)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        ends = [row["end_ns"] for row in rows(run, most_instances=10) if row["rank"] == 0]
        assert len(rows(run)) == 200
    assert ends == [T0 + (seq * 10 + 5) * US for seq in range(9, 100, 10)]


def test_no_collectives_no_rows(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2)
    builder.rank_files()
    builder.step(0, 0, 0, 10)
    builder.publish()
    assert matched_ends(builder.folder / "segments").num_rows == 0
    with open_run(builder.folder) as run:
        assert rows(run) == []


def test_times_beyond_all_bounds_are_a_sentence(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 2)
    builder.group(7, [0, 1], "dp")
    for rank in range(2):
        wide = {"group_id": 7, "seq": 0, "num_bytes": 1, "enqueue_ns": 0}
        builder.add("collectives", rank, 0, start_ns=-(2**63), end_ns=2**63 - 1, **wide)
    builder.publish()
    with pytest.raises(UserError, match="collectives cannot be matched"):
        matched_ends(builder.folder / "segments")

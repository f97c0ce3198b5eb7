"""weight_checksums: which ranks hold copies of the same weights, and whether these are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.run import open_run
from tests.ingest.query.built_run import answer
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout


def add(run: RunBuilder, rank: int, checksum: int | None, **where: Any) -> None:
    row = {
        "ts_ns": T0,
        "tensor": "weight",
        "layer": 0,
        "name": "layers.0",
        "shard": "",
        "count": 8,
        "sampled": 8,
        "zero_ratio": 0.0,
        "nonfinite": 0,
        "log2_counts": [0] * 64,
        "checksum": checksum,
        **where,
    }
    run.add("tensor_stats", rank, row.pop("step", 0), **row)


def weight_checksums(run: RunBuilder, **params: Any) -> list[dict[str, Any]]:
    return answer(run, "weight_checksums", **params).to_pylist()


def test_replicas_of_plain_weights_are_compared_within_their_tensor_index(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 6, ParallelLayout.from_sizes(dp=3, tp=2))
    for rank in range(6):  # tp fastest: ranks 1, 3, 5 hold the other half
        add(run, rank, -7 if rank == 3 else 5 + rank % 2)
    equal, differs = weight_checksums(run)
    assert (equal["place"], equal["num_ranks"], equal["num_values"]) == (0, 3, 1)
    assert equal["odd_ranks"] == []
    assert (differs["place"], differs["num_ranks"], differs["num_values"]) == (1, 3, 2)
    assert differs["odd_ranks"] == [3]


def test_parts_that_say_which_they_are_are_copies_wherever_they_are(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(dp=2, tp=2))
    for rank in range(4):
        add(run, rank, 10, shard="whole", name="norm")
        add(run, rank, 20 + rank // 2, shard=f"dp={rank // 2}", name="layers.0.attention_norm")
        add(run, rank, 30 + rank, shard=f"dp={rank // 2},tp={rank % 2}", name="layers.0.mlp")
    found = {(row["name"], row["shard"]): row for row in weight_checksums(run)}
    assert {key: row["num_ranks"] for key, row in found.items()} == {
        ("norm", "whole"): 4,
        ("layers.0.attention_norm", "dp=0"): 2,
        ("layers.0.attention_norm", "dp=1"): 2,
    }
    assert {row["num_values"] for row in found.values()} == {1}


def test_two_that_differ_name_nobody_and_stages_stand_apart(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, dp=2))
    for rank in range(4):
        add(run, rank, rank if rank < 2 else 9, step=3)
    first, second = weight_checksums(run)
    assert (first["stage"], first["num_values"], first["odd_ranks"]) == (0, 2, [])
    assert (second["stage"], second["num_values"]) == (1, 1)
    assert weight_checksums(run, step_min=4) == []


def test_a_run_that_recorded_no_checksums_has_none(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    for rank in range(2):
        add(run, rank, None)
        add(run, rank, 5, tensor="gradient")
    assert weight_checksums(run) == []


def test_runs_from_before_there_were_checksums_have_none(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    for rank in range(2):
        add(run, rank, 5)
    run.rank_files()
    run.publish()
    for path in run.folder.glob("segments/tensor_stats-*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns("checksum"), path)
    with open_run(run.folder) as opened:
        assert opened.ask("weight_checksums").num_rows == 0

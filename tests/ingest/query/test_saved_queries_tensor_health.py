"""tensor_health: parts of tensors put together to what the whole one would have given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.run import open_run
from tests.ingest.query.built_run import answer, pipeline_layers
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.sources.tensors.histograms import statistics

RANDOM = np.random.default_rng(5)


def add(run: RunBuilder, rank: int, values: Any, **where: Any) -> None:
    """A row of one rank's part of a tensor."""
    values = np.asarray(values, dtype=np.float32)
    finite = np.abs(values[np.isfinite(values)])
    peak = float(finite.max()) if finite.size == values.size else float("nan")
    row = {
        "step": 0,
        "ts_ns": T0,
        "microbatch": -1,
        "chunk": -1,
        "tensor": "residual",
        "layer": 0,
        "name": "layers.0",
        "shard": "",
        **statistics(values, values.size, peak),
        **where,
    }
    run.add("tensor_stats", rank, row.pop("step"), **row)


def tensor_health(run: RunBuilder, **params: Any) -> list[dict[str, Any]]:
    return answer(run, "tensor_health", **params).to_pylist()


def expect_whole(row: dict[str, Any], values: Any) -> None:
    exact = np.asarray(values, dtype=np.float32).astype(np.float64)
    assert row["count"] == exact.size
    assert row["mean"] == pytest.approx(exact.mean(), rel=1e-9)
    assert row["std"] == pytest.approx(exact.std(), rel=1e-9)
    assert row["rms"] == pytest.approx(np.sqrt((exact**2).mean()), rel=1e-9)
    assert row["absmax"] == np.abs(exact).max()
    assert row["zero_ratio"] == pytest.approx((exact == 0).mean())


def test_shards_of_different_size_and_level_make_the_whole(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    parts = RANDOM.normal(5, 1, 300), np.concatenate([RANDOM.normal(-1, 9, 100), np.zeros(50)])
    for rank, values in enumerate(parts):
        add(run, rank, values, shard=f"tp={rank}")
    (row,) = tensor_health(run)
    expect_whole(row, np.concatenate(parts))
    assert (row["num_parts"], row["rank"], row["nonfinite"], row["bad_rank"]) == (2, 0, 0, None)


def test_copies_of_one_shard_count_once_and_equal_shards_do_not(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(dp=2, tp=2))
    shards = np.zeros(10), RANDOM.normal(size=10)  # of FSDP, copied on both tp ranks
    for rank in range(4):
        add(run, rank, shards[rank // 2], shard=f"dp={rank // 2}", tensor="gradient")
        add(run, rank, np.zeros(10), shard=f"dp={rank // 2}", tensor="weight", name="dead")
    gradient, dead = tensor_health(run)
    expect_whole(gradient, np.concatenate(shards))
    assert (dead["count"], dead["num_parts"], dead["zero_ratio"]) == (20, 2, 1.0)


def test_replicas_with_batches_of_their_own_are_parts(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(dp=2, tp=2))
    batches = RANDOM.normal(size=(2, 40))
    for rank in range(4):  # tp ranks hold the same output
        add(run, rank, batches[rank // 2])
    (row,) = tensor_health(run)
    expect_whole(row, batches.ravel())


@pytest.mark.parametrize("local", [False, True])
def test_layers_are_numbered_over_all_stages(tmp_path: Path, local: bool) -> None:
    run = RunBuilder(tmp_path / "run", 3, ParallelLayout.from_sizes(pp=3))
    for stage, layer, number in pipeline_layers(local):
        add(run, stage, [float(layer)] * 3, layer=number, chunk=stage)
    for stage in range(3):
        add(run, stage, [9.0], layer=-1, name="norm", chunk=stage, tensor="output")
    rows = tensor_health(run)
    layers = {row["layer"]: row["mean"] for row in rows if row["layer"] >= 0}
    assert layers == {layer: float(layer) for layer in range(6)}
    assert [row["layer"] for row in tensor_health(run, layer=4)] == [4]


def test_values_that_are_not_finite_are_counted_and_name_their_rank(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    add(run, 0, [1.0, 3.0], shard="tp=0")
    add(run, 1, [np.nan, np.inf], shard="tp=1")
    (row,) = tensor_health(run)
    assert (row["nonfinite"], row["bad_rank"], row["count"]) == (2, 1, 4)
    assert (row["mean"], row["rms"] ** 2, row["absmax"]) == (2.0, pytest.approx(5.0), 3.0)


def test_the_update_ratio_is_that_of_the_whole_tensor(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    weights, updates = RANDOM.normal(size=(2, 64)), 1e-3 * RANDOM.normal(size=(2, 64))
    updates[1] = 0  # a shard that is not updated still has its weights
    for rank in range(2):
        add(run, rank, weights[rank], shard=f"tp={rank}", tensor="weight")
        add(run, rank, updates[rank], shard=f"tp={rank}", tensor="update")
    for params in ({}, {"tensor": "update"}):
        row = next(row for row in tensor_health(run, **params) if row["tensor"] == "update")
        exact = np.linalg.norm(updates) / np.linalg.norm(weights)
        assert row["update_ratio"] == pytest.approx(exact, rel=1e-6)
    (weight,) = tensor_health(run, tensor="weight")
    assert weight["update_ratio"] is None


def test_tensors_that_are_not_finite_are_listed_by_step_and_layer(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))
    add(run, 0, [1.0], step=3)
    add(run, 0, [np.inf], step=3, tensor="output", name="head", layer=-1)  # logits may be masked
    add(run, 1, [np.nan, 1.0], step=3, tensor="mlp", name="layers.1.mlp", layer=1)
    add(run, 0, [np.nan, np.nan], step=3, tensor="weight", layer=0)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = opened.ask("nonfinite_tensors").to_pylist()
        assert opened.ask("nonfinite_tensors", step_min=4).num_rows == 0
    found = [(row["stage"], row["rank"], row["tensor"], row["nonfinite"]) for row in rows]
    assert found == [(0, 0, "weight", 2), (1, 1, "mlp", 1)]

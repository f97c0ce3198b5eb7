"""tensor_histogram and tensors_recorded: sizes of whole tensors from those of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.run import open_run
from tests.ingest.query.test_saved_queries_tensor_health import add
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


def shares(run: RunBuilder, **params: Any) -> dict[int, dict[int, float]]:
    """Share by exponent by step."""
    run.rank_files()
    run.publish()
    found: dict[int, dict[int, float]] = {}
    with open_run(run.folder) as opened:
        for row in opened.ask("tensor_histogram", **params).to_pylist():
            found.setdefault(row["step"], {})[row["exponent"]] = row["share"]
    return found


def test_parts_make_the_histogram_of_the_whole_and_copies_count_once(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(dp=2, tp=2))
    shards = np.array([1.0, 1.5, 4.0, 0.0]), np.array([0.25, -4.5, 5.0, 7.0])
    for rank in range(4):
        add(run, rank, shards[rank % 2], shard=f"tp={rank % 2}")
        add(run, rank, [64.0], tensor="mlp", name="layers.0.mlp", step=2)
    wanted = {-2: 1 / 8, 0: 2 / 8, 2: 4 / 8}  # the zero is in no bin
    assert shares(run, tensor="residual", layer=0) == {0: pytest.approx(wanted)}
    assert shares(run, tensor="mlp", layer=0, module="layers.0.mlp") == {2: {6: 1.0}}
    assert shares(run, tensor="mlp", layer=0, module="layers.0.other") == {}


def test_a_stage_that_counts_from_zero_is_numbered_on(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))
    for stage in range(2):
        for layer in range(2):
            add(run, stage, [2.0 ** (2 * stage + layer)], layer=layer, chunk=stage)
    assert shares(run, tensor="residual", layer=3) == {0: {3: 1.0}}


def test_parts_of_which_a_sample_was_looked_at_weigh_as_much_as_they_are(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    add(run, 0, [1.0, 1.0], shard="tp=0", count=30)  # 2 of 30 were looked at
    add(run, 1, [8.0] * 10, shard="tp=1")
    assert shares(run, tensor="residual", layer=0) == {0: pytest.approx({0: 0.75, 3: 0.25})}


def test_tensors_there_are(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1)
    for step in (4, 8):
        add(run, 0, [1.0], step=step)
    add(run, 0, [1.0], step=8, tensor="gradient", name="layers.0")
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        recorded = {row.pop("tensor"): row for row in opened.ask("tensors_recorded").to_pylist()}
    assert recorded == {
        "gradient": {"first_step": 8, "last_step": 8, "num_steps": 1},
        "residual": {"first_step": 4, "last_step": 8, "num_steps": 2},
    }

"""attention_health: heads of all stages, tensor-parallel ranks and replicas put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingest.query.built_run import answer, pipeline_layers
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout


def add(run: RunBuilder, rank: int, **values: Any) -> None:
    row = {
        "ts_ns": T0,
        "layer": 0,
        "head": 0,
        "name": "layers.0.attention",
        "shard": "whole",
        "max_logit": 5.0,
        "entropy": 1.0,
        "rows": 64,
        **values,
    }
    run.add("attention_stats", rank, row.pop("step", 0), **row)


def attention_health(run: RunBuilder, **params: Any) -> list[dict[str, Any]]:
    return answer(run, "attention_health", **params).to_pylist()


def test_replicas_give_the_greatest_logit_and_the_mean_entropy(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    add(run, 0, max_logit=5.0, entropy=1.0, rows=64)
    add(run, 1, max_logit=9.0, entropy=2.0, rows=32)
    (row,) = attention_health(run)
    assert (row["max_logit"], row["rows"], row["rank"]) == (9.0, 96, 0)
    assert row["entropy"] == pytest.approx((64 + 2 * 32) / 96)


def test_heads_of_tensor_parallel_ranks_stand_side_by_side(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    for rank in range(2):
        for head in (2 * rank, 2 * rank + 1):
            add(run, rank, head=head, max_logit=float(head), shard=f"tp={rank}")
    assert [(row["head"], row["max_logit"]) for row in attention_health(run)] == [
        (0, 0.0),
        (1, 1.0),
        (2, 2.0),
        (3, 3.0),
    ]
    assert [row["head"] for row in attention_health(run, head=3)] == [3]


@pytest.mark.parametrize("local", [False, True])
def test_layers_are_numbered_over_all_stages(tmp_path: Path, local: bool) -> None:
    run = RunBuilder(tmp_path / "run", 3, ParallelLayout.from_sizes(pp=3))
    for stage, layer, number in pipeline_layers(local):
        add(run, stage, layer=number, chunk=stage, entropy=float(layer))
    assert {row["layer"]: row["entropy"] for row in attention_health(run)} == {
        n: float(n) for n in range(6)
    }
    assert [row["layer"] for row in attention_health(run, layer=4)] == [4]


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(dp=2))
    add(run, 0, max_logit=None, entropy=None)
    add(run, 1, max_logit=3.0, entropy=2.0)
    add(run, 1, max_logit=None, entropy=None, head=1)
    first, second = attention_health(run)
    assert (first["max_logit"], first["entropy"]) == (3.0, 2.0)
    assert (second["max_logit"], second["entropy"]) == (None, None)

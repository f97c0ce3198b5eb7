"""Tensor statistics of the real job, TP 2 x PP 2, against the same job in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.store import open_run

pytestmark = pytest.mark.torch

TINY = ("--batch", "2", "--seq", "16", "--width", "32", "--heads", "2")
SIZES = {"num_steps": 3, "num_microbatches": 2, "num_layers": 4}
ON = {"TRACE_HOOKS_STATISTICS": "2"}
EXACT = 1e-5
"""Sums of float32 products taken in another order."""
SAMPLED = 0.1
"""Where one process looks at every other value only, and a shard at all of its own."""


def rms_of(one: dict[str, Any]) -> Any:
    return pytest.approx(one["rms"], rel=EXACT if one["sampled"] == one["count"] else SAMPLED)


@pytest.fixture(scope="module")
def alone(
    train_3d: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of tensor_health of the job in one process, by (step, layer, tensor, name)."""
    folder = tmp_path_factory.mktemp("alone")
    return health(train_3d(folder, "alone", pp=1, dp=1, tp=1, **SIZES, options=TINY, environ=ON))


def health(job: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    with open_run(job.folder) as run:
        rows = run.ask("tensor_health").to_pylist()
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
    return {(row["step"], row["layer"], row["tensor"], row["name"]): row for row in rows}


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_shards_and_stages_give_what_one_process_gives(
    train_3d: Callable[..., Any], tmp_path: Path, alone: dict[Any, Any], sequence_parallel: bool
) -> None:
    options = (*TINY, "--sequence-parallel") if sequence_parallel else TINY
    job = train_3d(tmp_path, "tp", pp=2, dp=1, tp=2, **SIZES, options=options, environ=ON)
    found = health(job)
    assert set(found) == set(alone)
    assert {key[0] for key in found} == {0, 2}
    assert {key[1] for key in found if key[2] == "residual"} == {0, 1, 2, 3}
    for key, row in found.items():
        one = alone[key]
        assert (row["count"], row["nonfinite"]) == (one["count"], 0), key
        if key[0] == 0 and key[2] != "update":  # AdamW's first update is the sign of a gradient
            assert row["rms"] == rms_of(one), key
            assert row["absmax"] == pytest.approx(one["absmax"], rel=EXACT), key
            if one["sampled"] == one["count"]:
                assert row["std"] == pytest.approx(one["std"], rel=EXACT), key
                assert row["mean"] == pytest.approx(one["mean"], abs=EXACT * one["rms"]), key


def test_fsdp_shards_give_what_one_process_gives(
    train_3d: Callable[..., Any], tmp_path: Path, alone: dict[Any, Any]
) -> None:
    """Weights before the first step; the two replicas have batches of their own."""
    job = train_3d(tmp_path, "dp", pp=1, dp=2, tp=2, **SIZES, options=TINY, environ=ON)
    for key, row in health(job).items():
        one = alone[key]
        replicas = 1 if key[2] in ("weight", "gradient", "update") else 2
        assert row["count"] == replicas * one["count"], key
        if key[2] == "update":
            assert 0 < row["update_ratio"] < 1, key
        if key[2] == "weight" and key[0] == 0:
            assert row["rms"] == rms_of(one)
            assert row["absmax"] == one["absmax"]

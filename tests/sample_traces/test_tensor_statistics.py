"""Statistics of tensors and heads of the real job, TP 2 x PP 2, against it in one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run

pytestmark = pytest.mark.torch

TINY = ("--batch", "2", "--seq", "16", "--width", "32", "--heads", "4")
SIZES = {"num_steps": 3, "num_microbatches": 2, "num_layers": 4}
ON = {"TRACE_HOOKS_STATISTICS": "2"}
EXACT = 1e-5
"""Sums of float32 products taken in another order."""
SAMPLED = 0.1
"""Where one process looks at every other value only, and a shard at all of its own."""


def rms_of(one: dict[str, Any]) -> Any:
    return pytest.approx(one["rms"], rel=EXACT if one["sampled"] == one["count"] else SAMPLED)


Rows = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def alone(train_3d: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The job in one process."""
    folder = tmp_path_factory.mktemp("alone")
    return train_3d(folder, "alone", pp=1, dp=1, tp=1, **SIZES, options=TINY, environ=ON)


@pytest.fixture(scope="module")
def four_ranks(train_3d: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the job under TP 2 x PP 2, once for each way of doing so."""

    @cache
    def run(sequence_parallel: bool, **environ: str) -> Any:
        options = (*TINY, "--sequence-parallel") if sequence_parallel else TINY
        folder = tmp_path_factory.mktemp("four ranks")
        return train_3d(folder, "job", pp=2, dp=1, tp=2, **SIZES, options=options, environ=environ)

    return run


def rows_of(job: Any, question: str) -> list[dict[str, Any]]:
    """What a run answers; fails where a hook has."""
    with open_run(job.folder) as run:
        rows: list[dict[str, Any]] = run.ask(question).to_pylist()
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
    return rows


def health(job: Any) -> Rows:
    rows = rows_of(job, "tensor_health")
    return {(row["step"], row["layer"], row["tensor"], row["name"]): row for row in rows}


def heads(job: Any) -> Rows:
    rows = rows_of(job, "attention_health")
    return {(row["step"], row["layer"], row["head"]): row for row in rows}


@pytest.mark.long
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_shards_and_stages_give_what_one_process_gives(
    alone: Any, four_ranks: Any, sequence_parallel: bool
) -> None:
    expected = health(alone)
    of_four_ranks = health(four_ranks(sequence_parallel, **ON))
    assert set(of_four_ranks) == set(expected)
    assert {key[0] for key in of_four_ranks} == {0, 2}
    assert {key[1] for key in of_four_ranks if key[2] == "residual"} == {0, 1, 2, 3}
    for key, row in of_four_ranks.items():
        one = expected[key]
        assert (row["count"], row["nonfinite"]) == (one["count"], 0), key
        if key[0] == 0 and key[2] != "update":  # AdamW's first update is the sign of a gradient
            assert row["rms"] == rms_of(one), key
            assert row["absmax"] == pytest.approx(one["absmax"], rel=EXACT), key
            if one["sampled"] == one["count"]:
                assert row["std"] == pytest.approx(one["std"], rel=EXACT), key
                assert row["mean"] == pytest.approx(one["mean"], abs=EXACT * one["rms"]), key


@pytest.mark.long
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_heads_of_all_ranks_and_stages_are_those_of_one_process(
    alone: Any, four_ranks: Any, sequence_parallel: bool
) -> None:
    expected = heads(alone)
    assert set(expected) == {(s, n, h) for s in (0, 2) for n in range(4) for h in range(4)}
    of_four_ranks = heads(four_ranks(sequence_parallel, **ON))
    assert set(of_four_ranks) == set(expected)
    for key, row in of_four_ranks.items():
        if key[0] == 0:  # AdamW's first update is the sign of a gradient
            assert row["max_logit"] == pytest.approx(expected[key]["max_logit"], rel=1e-4)
            assert row["entropy"] == pytest.approx(expected[key]["entropy"], rel=1e-4)
            assert row["rows"] == expected[key]["rows"]


def test_losses_are_bitwise_equal_with_statistics_on_and_off(four_ranks: Any) -> None:
    assert four_ranks(False, **ON).losses == four_ranks(False).losses


@pytest.mark.long
def test_fsdp_shards_give_what_one_process_gives(
    train_3d: Callable[..., Any], tmp_path: Path, alone: Any
) -> None:
    """Weights before the first step; the two replicas have batches of their own."""
    job = train_3d(tmp_path, "dp", pp=1, dp=2, tp=2, **SIZES, options=TINY, environ=ON)
    expected = health(alone)
    for key, row in health(job).items():
        one = expected[key]
        replicas = 1 if key[2] in ("weight", "gradient", "update") else 2
        assert row["count"] == replicas * one["count"], key
        if key[2] == "update":
            assert 0 < row["update_ratio"] < 1, key
        if key[2] == "weight" and key[0] == 0:
            assert row["rms"] == rms_of(one)
            assert row["absmax"] == one["absmax"]

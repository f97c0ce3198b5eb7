"""Loads of experts of wrapped models in two real processes; the job is sharded_job.py."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.forks import fork, succeeded

JOB = str(Path(__file__).with_name("sharded_job.py"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What both ranks of the job report."""
    folder = tmp_path_factory.mktemp("sharded")
    files = [folder / f"{rank}.json" for rank in range(2)]
    succeeded(
        [
            fork(folder / f"rank{rank}", [JOB, str(rank), f"{folder}/store", str(file)], os.environ)
            for rank, file in enumerate(files)
        ]
    )
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.torch
@pytest.mark.parametrize("wrapper", ["DDP", "FSDP1, flat", "FSDP1", "FSDP2"])
def test_gradients_and_weights_are_bitwise_equal_and_loads_equal_a_count_by_hand(
    ranks: list[dict], wrapper: str
) -> None:
    for rank in ranks:
        job = rank["jobs"][wrapper]
        assert job["equal"]
        assert job["numbers"] > 1000
        assert job["tokens"] == job["by hand"]


@pytest.mark.torch
def test_a_bias_is_recorded_only_where_a_rank_has_all_of_it(ranks: list[dict]) -> None:
    for rank in ranks:
        assert all(len(bias) == 4 for bias in rank["jobs"]["DDP"]["biases"])
        for wrapper in ("FSDP1, flat", "FSDP2"):
            assert not any(rank["jobs"][wrapper]["biases"])
    whole = [bias is None or len(bias) == 4 for r in ranks for bias in r["jobs"]["FSDP1"]["biases"]]
    assert whole
    assert all(whole)


@pytest.mark.torch
def test_no_hook_failed(ranks: list[dict]) -> None:
    assert [rank["errors"] for rank in ranks] == [{}, {}]

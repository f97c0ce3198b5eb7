"""Passes of ping-pong as expert_times shows them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.experts.measured import passes_of
from diagnosis.experts.same_ranks import SameRanks
from tests.diagnosis.answer_schema import answer_schema

EXPERT_TIMES = answer_schema(
    "rank INTEGER, stage INTEGER, ep BIGINT, group_id BIGINT, all_to_alls BIGINT, "
    "all_to_all_p50_ms DOUBLE, all_to_all_p99_ms DOUBLE, transfer_ms DOUBLE, attention_ms DOUBLE, "
    "expert_ms DOUBLE, expert_step_ms DOUBLE, micro_batches BIGINT, layers BIGINT, step_ms DOUBLE, "
    "first_step BIGINT, last_step BIGINT"
)


def times(*rows: dict[str, Any]) -> pa.Table:
    own = {"stage": 0, "all_to_all_p50_ms": 0.5, "transfer_ms": 0.4, "attention_ms": 1.0,
           "expert_ms": 1.0, "micro_batches": 2, "layers": 4, "step_ms": 20.0, "first_step": 3,
           "last_step": 9}  # fmt: skip
    every = [{"rank": rank, **own, **row} for rank, row in enumerate(rows)]
    return pa.Table.from_pylist(every, EXPERT_TIMES)


def test_one_pass_for_each_stage() -> None:
    first, second = passes_of(times({}, {"attention_ms": 3.0}, {"stage": 1, "layers": 2}))
    assert (first.stage, first.ranks, first.on_same_ranks) == (0, (0, 1), True)
    assert first.times == SameRanks(2.0, 1.0, 0.4, 2, 4)
    assert (second.stage, second.times.layers, second.step_ms) == (1, 2, 20.0)
    assert (second.first_step, second.last_step) == (3, 9)


def test_experts_on_ranks_of_their_own() -> None:
    attends = {"expert_ms": None, "layers": None}
    has_experts = {"attention_ms": None, "micro_batches": None, "stage": None}
    (apart,) = passes_of(times(attends, attends, has_experts))
    assert (apart.stage, apart.ranks, apart.on_same_ranks) == (-1, (0, 1, 2), False)
    assert (apart.times.micro_batches, apart.times.layers) == (2, 4)


def test_without_clocks_the_least_waiting_stands_for_the_transfer() -> None:
    rows = [{"transfer_ms": None, "all_to_all_p50_ms": p50} for p50 in (0.9, 0.6)]
    (measured,) = passes_of(times(*rows))
    assert measured.times.transfer == pytest.approx(0.6)


@pytest.mark.parametrize("missing", ["attention_ms", "expert_ms", "micro_batches", "layers"])
def test_no_pass_without_its_times(missing: str) -> None:
    assert passes_of(times({missing: None})) == []
    assert passes_of(times({"transfer_ms": None, "all_to_all_p50_ms": None})) == []
    assert passes_of(times()) == []


@pytest.mark.parametrize("name", ["attention_ms", "expert_ms"])
def test_no_pass_where_communication_covers_all_of_a_part(name: str) -> None:
    for nothing in (0.0, -0.5):
        assert passes_of(times({name: nothing})) == []

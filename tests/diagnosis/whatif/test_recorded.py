"""Spans of recorded jobs as operations: hand-built rows, and generated jobs with a known fault."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from diagnosis.whatif.operations import Sizes
from diagnosis.whatif.recorded import recorded_operations

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
PLAIN: dict[str, Any] = {
    "step": 1,
    "dp": 0,
    "stage": 0,
    "rank": 0,
    "name": "x",
    "track": "main",
    "microbatch": -1,
    "chunk": -1,
    "peer": -1,
    "tag": -1,
    "seq": -1,
    "waited_ns": -1,
    "is_aligned": True,
    "member": 0,
}


def span(kind: str, begin_ms: float, end_ms: float, **values: Any) -> dict[str, Any]:
    times = {"begin_ns": T0 + round(begin_ms * MS), "dur_ns": round((end_ms - begin_ms) * MS)}
    return {**PLAIN, "kind": kind, "name": kind, **times, **values}


def ops_of(
    rows: list[dict[str, Any]], sizes: Sizes
) -> tuple[dict[tuple[str, int, int, int], tuple[float, float]], tuple[str, ...]]:
    """(type, stage, dp, number) -> (start, duration) in ms, and the notes."""
    table, notes = recorded_operations(pa.Table.from_pylist(rows), sizes)
    found = {
        (r["optype"], r["stage"], r["dp"], r["seq"]): (
            round(1000 * r["start_s"], 6),
            round(1000 * r["duration_s"], 6),
        )
        for r in table.to_pylist()
    }
    assert len(found) == table.num_rows
    return found, notes


def two_stages() -> list[dict[str, Any]]:
    """One micro-batch through stage 0 (rank 0) and stage 1 (rank 4); the sender sees ends late."""
    first = {"stage": 0, "rank": 0, "microbatch": 0, "chunk": 0}
    second = {"stage": 1, "rank": 4, "microbatch": 0, "chunk": 1}
    to_second = {**first, "peer": 4, "tag": 0, "seq": 9, "microbatch": -1, "chunk": -1}
    to_first = {**second, "peer": 0, "tag": 0, "seq": 3, "microbatch": -1, "chunk": -1}
    return [
        span("forward", 0, 10, **first),
        span("send", 10.5, 60, **to_second),
        span("recv", 0.5, 12, **to_second | {"stage": 1, "rank": 4, "peer": 0}),
        span("forward", 12, 22, **second),
        span("forward", 22, 23, name="loss", **second),
        span("backward", 23, 43, **second),
        span("send", 43, 43.2, **to_first),
        span("recv", 11, 45, **to_first | {"stage": 0, "rank": 0, "peer": 4}),
        span("backward", 45, 65, **first),
        span("forward", 46, 50, **first, track="main"),  # inside: part of the backward
        span("other_comm", 66, 67, stage=0, rank=0),
        span("other_comm", 44, 67, stage=1, rank=4),
        span("optimizer", 65, 70, stage=0, rank=0),
        span("optimizer", 43.5, 69, stage=1, rank=4),
    ]


def test_a_pipeline() -> None:
    found, notes = ops_of(two_stages(), Sizes(1, 2))
    assert found == {
        ("forward-compute", 0, 0, 0): (0, 10),
        ("forward-compute", 1, 0, 0): (12, 11),
        ("backward-compute", 0, 0, 0): (45, 20),
        ("backward-compute", 1, 0, 0): (23, 20),
        ("forward-send", 0, 0, 0): (10.5, 1.5),
        ("forward-recv", 1, 0, 0): (0.5, 11.5),
        ("backward-send", 1, 0, 0): (43, 2),
        ("backward-recv", 0, 0, 0): (11, 34),
        ("optimizer-clip-main-grad", 0, 0, 0): (66, 1),
        ("optimizer-clip-main-grad", 1, 0, 0): (44, 23),
        ("optimizer", 0, 0, 0): (67, 3),
        ("optimizer", 1, 0, 0): (67, 2),
    }
    assert notes == ()


def replicas() -> list[dict[str, Any]]:
    """Two replicas of one stage, gathers inside the first forward and before it, FSDP's way."""
    rows = []
    for dp in (0, 1):
        cell = {"dp": dp, "rank": dp}
        rows += [
            span("dp_comm", 0, 2, **cell),
            span("forward", 2, 12, **cell),
            span("dp_comm", 3, 5, **cell),
            span("forward", 12, 20, **cell),
            span("dp_comm", 13, 14, **cell),
            span("backward", 20, 40, **cell),
            span("dp_comm", 38, 44, track="nccl", **cell),
            span("dp_comm", 45, 46, **cell),
            span("optimizer", 46, 50, **cell),
            span("dp_comm", 47, 49, **cell),
        ]
    return rows


def test_missing_communication_is_noted() -> None:
    rows = [row for row in replicas() if row["kind"] in ("forward", "backward")]
    found, notes = ops_of(rows, Sizes(2, 1))
    assert found["optimizer", 0, 0, 0] == (38, 0)  # a step begins with its first operation
    assert any("replicas wait for nobody" in note for note in notes)
    assert any("optimizer is not recorded" in note for note in notes)

"""Spans of recorded jobs as operations: hand-built rows, and generated jobs with a known fault."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
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


def test_without_transfers_stages_hand_over_at_once() -> None:
    rows = [row for row in two_stages() if row["kind"] not in ("send", "recv")]
    found, notes = ops_of(rows, Sizes(1, 2))
    assert found["forward-send", 0, 0, 0] == (10, 2)  # till the next stage begins
    assert found["forward-recv", 1, 0, 0] == (12, 0)
    assert found["backward-recv", 0, 0, 0] == (45, 0)
    assert [note for note in notes if "hand over at once" in note]


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


def test_gathers_and_gradients() -> None:
    found, notes = ops_of(replicas(), Sizes(2, 1))
    own = {key[0] + f" {key[3]}": times for key, times in found.items() if key[2] == 1}
    assert own == {
        "params-all-gather 0": (0, 4),  # 2 ms before the forward, 2 inside it
        "forward-compute 0": (4, 8),
        "forward-compute 1": (12, 8),
        "backward-compute 0": (20, 20),
        "grads-reduce-scatter 0": (40, 6),  # what lies behind the backward
        "optimizer 0": (46, 4),  # the gather inside it is part of it
    }
    assert notes == ()


def test_the_wait_of_each_gather_is_taken_out() -> None:
    """Replica 1 comes late to both gathers inside the first forward; each transfer takes 1 ms."""
    rows = []
    for dp, begins in ((0, (0, 10)), (1, (4, 12))):
        cell = {"dp": dp, "rank": dp}
        rows += [span("forward", 0, 20, **cell), span("backward", 20, 30, **cell)]
        rows += [
            span("dp_comm", begin, end, **cell) for begin, end in zip(begins, (5, 13), strict=True)
        ]
        rows.append(span("optimizer", 30, 31, **cell))
    found, _ = ops_of(rows, Sizes(2, 1))
    # together from 4 ms on, and 2 x 1 ms of transfer
    assert found["params-all-gather", 0, 0, 0] == (0, 6)
    assert found["params-all-gather", 0, 1, 0] == (4, 2)
    assert found["forward-compute", 0, 0, 0] == (8, 12)
    assert found["forward-compute", 0, 1, 0] == (2, 18)


def test_a_norm_over_replicas_inside_the_optimizer() -> None:
    """PP 1, TP 1: the replicas are the whole job."""
    rows = replicas()
    for dp in (0, 1):
        rows.append(span("dp_comm", 46.5, 46.8, name="all_reduce", dp=dp, rank=dp))
    found, _ = ops_of(rows, Sizes(2, 1))
    assert found["optimizer-clip-main-grad", 0, 1, 0] == (46.5, 0.3)
    assert found["optimizer", 0, 1, 0] == (46.8, 3.2)


def test_who_did_not_wait_saw_no_end() -> None:
    """Two micro-batches; the second receive was looked at only long after it had come."""
    first, second = ({"stage": s, "rank": s, "chunk": s} for s in (0, 1))
    link = {"tag": 0, "microbatch": -1, "chunk": -1}
    rows = [
        *(span("forward", 10 * m, 10 * m + 10, microbatch=m, **first) for m in (0, 1)),
        *(span("send", 10 * m + 10, 90, seq=m, **first | link | {"peer": 1}) for m in (0, 1)),
        *(span("forward", b, b + 20, microbatch=m, **second) for m, b in ((0, 12), (1, 40))),
        span("recv", 0, 12, seq=0, waited_ns=12 * MS, **second | link | {"peer": 0}),
        span("recv", 1, 39, seq=1, waited_ns=10_000, **second | link | {"peer": 0}),
    ]
    found, _ = ops_of(rows, Sizes(1, 2))
    assert found["forward-send", 0, 0, 0] == (10, 2)
    assert found["forward-send", 0, 0, 1] == (20, 2)  # not 19: the median of those seen is 2
    assert found["forward-recv", 1, 0, 1] == (1, 21)


def test_missing_communication_is_noted() -> None:
    rows = [row for row in replicas() if row["kind"] in ("forward", "backward")]
    found, notes = ops_of(rows, Sizes(2, 1))
    assert found["optimizer", 0, 0, 0] == (38, 0)  # a step begins with its first operation
    assert any("replicas wait for nobody" in note for note in notes)
    assert any("optimizer is not recorded" in note for note in notes)


def test_weight_gradients_belong_to_the_backward() -> None:
    rows = [*two_stages(), span("wgrad", 65, 65.5, microbatch=0, chunk=0)]
    found, notes = ops_of(rows, Sizes(1, 2))
    assert found["backward-compute", 0, 0, 0] == (45, 20.5)
    assert any("zero-bubble" in note for note in notes)


def test_virtual_stages_have_empty_transfers_at_the_ends() -> None:
    """2 stages x 2 chunks, one micro-batch: forward 0 1 2 3, backward 3 2 1 0."""
    rows = []
    for turn in range(8):
        virtual = turn if turn < 4 else 7 - turn
        rows.append(
            span(
                "forward" if turn < 4 else "backward",
                turn,
                turn + 1,
                microbatch=0,
                chunk=virtual,
                stage=virtual % 2,
                rank=virtual % 2,
            )
        )
    table, _ = recorded_operations(pa.Table.from_pylist(rows), Sizes(1, 2))
    ops = dense(table, Sizes(1, 2))
    assert ops.num_chunks == 2
    for optype in ("forward-send", "forward-recv", "backward-send", "backward-recv"):
        for stage in (0, 1):
            assert len(ops.of_type(optype, stage)) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"is_aligned": False}, "clocks of the ranks are not aligned"),
        ({"stage": None}, "layout of the job is unknown"),
        ({"stage": 3}, "stages up to 3 and dp ranks up to 0"),
        ({"microbatch": -1}, "micro-batches were not recorded"),
        ({"chunk": 5}, "do not go round the stages"),
        ({"kind": "host"}, "no forward or backward was recorded"),
    ],
)
def test_what_is_unknown_is_told_in_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(NotAnswerable, match=says):
        ops_of([{**row, **change} for row in two_stages()], Sizes(1, 2))


def test_nothing_recorded() -> None:
    empty = pa.Table.from_pylist(two_stages()).slice(0, 0)
    with pytest.raises(NotAnswerable, match="nothing to replay"):
        recorded_operations(empty, Sizes(1, 2))


def test_stages_that_take_in_another_order_are_refused() -> None:
    cells = {0: {"stage": 0, "rank": 0, "chunk": 0}, 1: {"stage": 1, "rank": 4, "chunk": 1}}
    rows = [
        span("forward", begin, begin + 1, microbatch=micro, **cells[stage])
        for stage, begin, micro in ((0, 0, 0), (0, 1, 1), (1, 3, 1), (1, 4, 0))
    ]
    with pytest.raises(NotAnswerable, match="in another order"):
        ops_of(rows, Sizes(1, 2))

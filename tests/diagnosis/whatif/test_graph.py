"""What waits for what: hand-built two-stage steps, each rule seen in a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.graph import Graph, graph_of
from diagnosis.whatif.operations import NotAnswerable, Operations, Sizes, dense

Op = tuple[str, int, float, float]
"""type, stage, start, end; chunk 0"""

PIPELINE: list[Op] = [
    ("forward-compute", 0, 0.0, 1.0),
    ("forward-send", 0, 1.0, 1.1),
    ("forward-recv", 1, 0.0, 1.1),
    ("forward-compute", 1, 1.1, 2.1),
    ("backward-compute", 1, 2.1, 4.1),
    ("backward-send", 1, 4.1, 4.2),
    ("backward-recv", 0, 1.1, 4.2),
    ("backward-compute", 0, 4.2, 6.2),
    ("optimizer-clip-main-grad", 0, 6.2, 6.3),
    ("optimizer-clip-main-grad", 1, 4.2, 6.3),
    ("optimizer", 0, 6.3, 6.5),
    ("optimizer", 1, 6.3, 6.5),
]


TWO_STAGES = Sizes(1, 2)


def built(
    ops: list[Op], sizes: Sizes = TWO_STAGES, chunks: dict[int, int] | None = None
) -> Operations:
    """The same step on every dp rank; `chunks`: model chunk by place in `ops`."""
    counts: dict[tuple[str, int], int] = {}
    rows: list[dict[str, Any]] = []
    for at, (optype, stage, start, end) in enumerate(ops):
        seq = counts.get((optype, stage), 0)
        counts[optype, stage] = seq + 1
        rows += [
            {
                "step": 0,
                "dp": dp,
                "stage": stage,
                "rank": stage * sizes.dp + dp,
                "optype": optype,
                "seq": seq,
                "chunk": (chunks or {}).get(at, 0),
                "start_s": start,
                "duration_s": end - start,
            }
            for dp in range(sizes.dp)
        ]
    return dense(pa.Table.from_pylist(rows), sizes)


def waits(ops: Operations, graph: Graph) -> dict[str, set[str]]:
    """By name, such as 'forward-send 0 2' for number 2 of stage 0: what each waits for."""
    names = [
        f"{ops.optypes[t]} {stage} {seq}"
        for t, stage, seq in zip(ops.type_O, ops.stage_O, ops.seq_O, strict=True)
    ]
    return {name: {names[w] for w in graph.waits_O[op]} for op, name in enumerate(names)}


def test_a_pipeline_of_one_microbatch() -> None:
    ops = built(PIPELINE)
    waited_for = waits(ops, graph_of(ops))
    assert waited_for["forward-compute 0 0"] == set()
    assert waited_for["forward-send 0 0"] == {"forward-compute 0 0"}
    assert waited_for["forward-recv 1 0"] == set()
    assert waited_for["forward-compute 1 0"] == {"forward-recv 1 0"}
    assert waited_for["backward-compute 1 0"] == {"forward-compute 1 0"}
    assert waited_for["backward-compute 0 0"] == {"backward-recv 0 0", "forward-compute 0 0"}
    assert waited_for["optimizer-clip-main-grad 1 0"] == {"backward-compute 1 0"}
    assert waited_for["optimizer 0 0"] == {"optimizer-clip-main-grad 0 0"}


DP = Sizes(2, 1)
ALONE: list[Op] = [
    ("params-all-gather", 0, 0.0, 0.5),
    ("forward-compute", 0, 0.5, 1.5),
    ("backward-compute", 0, 1.5, 3.5),
    ("gc", 0, 3.5, 3.5),
    ("layernorm-grads-all-reduce", 0, 3.5, 3.6),
    ("grads-reduce-scatter", 0, 3.6, 4.0),
    ("grads-reduce-scatter", 0, 4.0, 4.4),
    ("optimizer-clip-main-grad", 0, 4.4, 4.5),
    ("optimizer", 0, 4.5, 5.0),
]


def test_gradients_of_one_stage() -> None:
    waited_for = waits(built(ALONE, DP), graph_of(built(ALONE, DP)))
    assert waited_for["forward-compute 0 0"] == {"params-all-gather 0 0"}
    assert waited_for["gc 0 0"] == {"backward-compute 0 0"}
    assert waited_for["grads-reduce-scatter 0 0"] == {
        "layernorm-grads-all-reduce 0 0",
        "params-all-gather 0 0",
    }
    assert waited_for["grads-reduce-scatter 0 1"] == {"grads-reduce-scatter 0 0"}
    assert waited_for["optimizer-clip-main-grad 0 0"] == {"grads-reduce-scatter 0 1"}


def test_without_replicas_gradients_are_not_waited_for() -> None:
    ops = built(ALONE, Sizes(1, 1))
    waited_for = waits(ops, graph_of(ops))
    assert waited_for["forward-compute 0 0"] == set()
    assert waited_for["optimizer-clip-main-grad 0 0"] == {"layernorm-grads-all-reduce 0 0"}
    assert what_if(prepare(ops)).M_S is None


def test_overlapped_gradients() -> None:
    overlapped: list[Op] = [
        *ALONE[:3],
        ("grads-reduce-scatter", 0, 3.5, 3.6),
        *ALONE[3:5],
        ("separate-grads-all-reduce", 0, 3.7, 4.0),
        *ALONE[7:],
    ]
    waited_for = waits(built(overlapped, DP), graph_of(built(overlapped, DP)))
    assert waited_for["grads-reduce-scatter 0 0"] == {
        "params-all-gather 0 0",
        "backward-compute 0 0",
    }
    assert waited_for["layernorm-grads-all-reduce 0 0"] == {"gc 0 0", "grads-reduce-scatter 0 0"}
    assert waited_for["separate-grads-all-reduce 0 0"] == {"layernorm-grads-all-reduce 0 0"}
    assert waited_for["optimizer-clip-main-grad 0 0"] == {"separate-grads-all-reduce 0 0"}


def test_the_gather_of_a_chunk_is_waited_for_by_its_first_forward() -> None:
    ops: list[Op] = [
        ("params-all-gather", 0, 0.0, 0.2),
        ("params-all-gather", 0, 0.2, 0.4),
        ("forward-compute", 0, 0.4, 1.0),
        ("forward-compute", 0, 1.0, 2.0),
        *ALONE[2:],
    ]
    waited_for = waits(built(ops, DP, {1: 1, 3: 1}), graph_of(built(ops, DP, {1: 1, 3: 1})))
    assert waited_for["forward-compute 0 0"] == {"params-all-gather 0 0"}
    assert waited_for["forward-compute 0 1"] == {"params-all-gather 0 1", "forward-compute 0 0"}


def test_the_first_backward_transfer_waits_for_the_compute_two_before() -> None:
    more = [
        ("forward-compute", 0, 1.0, 2.0),
        ("forward-send", 0, 2.0, 2.15),
        ("forward-recv", 1, 1.1, 2.15),
        ("forward-compute", 1, 4.2, 5.2),
        ("backward-compute", 1, 5.2, 7.2),
        ("backward-send", 1, 7.2, 7.3),
        ("backward-recv", 0, 6.2, 7.3),
        ("backward-compute", 0, 7.3, 9.3),
    ]
    ops = built([*PIPELINE[:8], *more, *((t, s, a + 4, b + 4) for t, s, a, b in PIPELINE[8:])])
    waited_for = waits(ops, graph_of(ops))
    assert waited_for["backward-recv 0 0"] == {"forward-compute 0 0"}
    assert waited_for["backward-recv 0 1"] == {"backward-recv 0 0", "backward-compute 0 0"}
    assert waited_for["forward-recv 1 1"] == {"forward-recv 1 0", "forward-compute 1 0"}
    assert waited_for["forward-compute 1 1"] == {"forward-recv 1 1", "backward-compute 1 0"}


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([op for op in PIPELINE if op[0] != "forward-recv"], "they are no pairs"),
        ([op for op in PIPELINE if op[:2] != ("optimizer", 1)], "stage 1 has no optimizer"),
        ([("optimizer", 0, 0, 1), ("optimizer", 1, 0, 1)], "no forward or backward"),
        (
            [*PIPELINE, ("forward-compute", 1, 4.1, 4.2), ("forward-compute", 1, 4.2, 4.3)],
            "has 1 operations forward-recv for 3 forward-compute",
        ),
        (
            [
                (optype, stage, begin - 7, end - 7)
                if stage == 0 and optype.startswith("backward")
                else (optype, stage, begin, end)
                for optype, stage, begin, end in PIPELINE
            ],
            "wait for each other in a cycle",
        ),
    ],
)
def test_no_graph_is_one_sentence(ops: list[Op], message: str) -> None:
    with pytest.raises(NotAnswerable, match=message):
        graph_of(built(ops))

"""Which sends, receives and computes of a pipeline belong together."""

from __future__ import annotations

import pytest

from diagnosis.whatif.graph import graph_of
from diagnosis.whatif.operations import NotAnswerable, Sizes
from tests.diagnosis.whatif.test_graph import PIPELINE, Op, built


def test_transfers_that_carry_nothing_wait_for_no_compute() -> None:
    idle: list[Op] = [("forward-recv", 1, 3.0, 3.1), ("backward-send", 1, 3.0, 3.1)]
    ops = built([*PIPELINE, *idle])
    graph = graph_of(ops)
    late = next(op for op in ops.of_type("forward-recv", 1) if ops.start_OSD[op, 0, 0] == 3.0)
    assert graph.waits_O[late] == tuple(op for op in ops.of_type("forward-recv", 1) if op != late)
    assert [node for node in graph.nodes if node.ops == (late,)]
    early = next(op for op in ops.of_type("backward-send", 1) if ops.start_OSD[op, 0, 0] == 3.0)
    assert graph.waits_O[early] == ()


def test_an_inner_stage_needs_all_its_transfers() -> None:
    ops: list[Op] = [
        op
        for stage in range(3)
        for op in (
            ("forward-compute", stage, stage, stage + 1.0),
            ("backward-compute", stage, 8.0 - stage, 9.0 - stage),
            ("optimizer", stage, 9.0, 9.5),
        )
    ]
    with pytest.raises(NotAnswerable, match="stage 1 has 0 operations forward-send for 1"):
        graph_of(built(ops, Sizes(1, 3)))

"""Forwards and backwards of recorded jobs as operations."""

from __future__ import annotations

import pyarrow as pa

from diagnosis.whatif.operations import Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from tests.diagnosis.whatif.test_recorded import ops_of, span, two_stages


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

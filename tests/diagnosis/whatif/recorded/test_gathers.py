"""All-gathers of parameters before and inside the first forward."""

from __future__ import annotations

from diagnosis.whatif.operations import Sizes
from tests.diagnosis.whatif.test_recorded import ops_of, replicas, span


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

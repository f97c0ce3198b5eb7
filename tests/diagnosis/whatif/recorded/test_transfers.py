"""Recorded sends and receives as transfers between stages."""

from __future__ import annotations

import pytest

from diagnosis.whatif.operations import NotAnswerable, Sizes
from tests.diagnosis.whatif.test_recorded import MS, ops_of, span, two_stages


def test_without_transfers_stages_hand_over_at_once() -> None:
    rows = [row for row in two_stages() if row["kind"] not in ("send", "recv")]
    found, notes = ops_of(rows, Sizes(1, 2))
    assert found["forward-send", 0, 0, 0] == (10, 2)  # till the next stage begins
    assert found["forward-recv", 1, 0, 0] == (12, 0)
    assert found["backward-recv", 0, 0, 0] == (45, 0)
    assert [note for note in notes if "hand over at once" in note]


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


def test_stages_that_take_in_another_order_are_refused() -> None:
    cells = {0: {"stage": 0, "rank": 0, "chunk": 0}, 1: {"stage": 1, "rank": 4, "chunk": 1}}
    rows = [
        span("forward", begin, begin + 1, microbatch=micro, **cells[stage])
        for stage, begin, micro in ((0, 0, 0), (0, 1, 1), (1, 3, 1), (1, 4, 0))
    ]
    with pytest.raises(NotAnswerable, match="in another order"):
        ops_of(rows, Sizes(1, 2))

"""What is measured again."""

from __future__ import annotations

from typing import Any

from trace_hooks.selftest.plan import RECHECK, Unit
from trace_hooks.selftest.suspects import MOST_SUSPECTS, ROUNDS, rechecks


def pairs(slow: dict[tuple[int, int], float]) -> list[dict[str, Any]]:
    rows = []
    for a in range(8):
        for b in range(a + 1, 8):
            seconds = 0.01 * (1 + (a + b) / 1000) * slow.get((a, b), 1.0)
            for rank, peer in ((a, b), (b, a)):
                row = {"test": "mesh", "num_bytes": 64, "rank": rank, "peer": peer}
                rows.append(row | {"seconds_min": seconds})
    return rows


def test_suspects_in_turn_with_a_control() -> None:
    units = rechecks(pairs({(2, 5): 3.0}))
    assert [unit.groups for unit in units[::2]] == [((2, 5),)] * ROUNDS
    assert {unit.test for unit in units} == {"mesh" + RECHECK}
    (control,) = {unit.groups[0] for unit in units[1::2]}
    assert sum(control) in (6, 7, 8)


def test_nobody_where_all_are_alike() -> None:
    assert rechecks(pairs({})) == ()
    assert rechecks([]) == ()
    failed = [row | {"seconds_min": None} for row in pairs({(2, 5): 3.0})]
    assert rechecks(failed) == ()


def test_not_more_than_a_few() -> None:
    slow = {(0, peer): 2.0 + peer for peer in range(1, 8)}
    units = rechecks(pairs(slow))
    assert len(units) == ROUNDS * (MOST_SUSPECTS + 1)
    assert Unit("mesh" + RECHECK, 64, ((0, 7),)) in units

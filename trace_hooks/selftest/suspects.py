"""Which measurements look slow enough to be taken again, with all other ranks idle.

The choice is generous: it names nobody (diagnosis/detectors/selftest does, from all measurements).
Each suspect is measured in turn with a control, the one that was as fast as most.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from trace_hooks.selftest.plan import DEVICE_TESTS, PAIR_TESTS, RECHECK, Group, Unit

SLOWER, BEYOND_NOISE = 1.1, 3.0
"""Times the median of its test, and by this many robust standard deviations (of logarithms)."""
FEWEST = 4
MOST_SUSPECTS = 5
"""Of each test and size: more than these are hardly single links."""
ROUNDS = 3
"""Suspect and control in turn: what disturbs the machine for a second disturbs both."""


MAD_TO_SD = 1.4826
"""Median absolute deviation to standard deviation, of a normal distribution."""


class Measured(NamedTuple):
    """The shortest time of a group in one test; of both ends of a pair the shorter."""

    group: Group
    seconds: float


def rechecks(rows: Iterable[Mapping[str, Any]]) -> tuple[Unit, ...]:
    """Units that measure the slowest again. `rows`: of all ranks, as in the table selftests."""
    return tuple(unit for cell, found in _by_cell(rows).items() for unit in _of_cell(cell, found))


def _by_cell(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], list[Measured]]:
    """Measurements by test and size, of pairs and devices."""
    shortest: dict[tuple[str, int], dict[Group, float]] = defaultdict(dict)
    for row in rows:
        if row["test"] not in (*DEVICE_TESTS, *PAIR_TESTS) or row["seconds_min"] is None:
            continue
        rank, peer = row["rank"], row["peer"]
        group = (rank,) if peer < 0 else (min(rank, peer), max(rank, peer))
        own = shortest[row["test"], row["num_bytes"]]
        own[group] = min(row["seconds_min"], own.get(group, row["seconds_min"]))
    return {
        cell: [Measured(group, seconds) for group, seconds in own.items()]
        for cell, own in shortest.items()
    }


def _of_cell(cell: tuple[str, int], found: list[Measured]) -> Iterator[Unit]:
    if len(found) < FEWEST:
        return
    usual_s = statistics.median(one.seconds for one in found)
    spread = MAD_TO_SD * statistics.median(abs(math.log(one.seconds / usual_s)) for one in found)
    least_s = usual_s * max(SLOWER, math.exp(BEYOND_NOISE * spread))
    slowest = sorted(found, key=lambda one: -one.seconds)[:MOST_SUSPECTS]
    suspects = [one for one in slowest if one.seconds > least_s]
    control = min(found, key=lambda one: (abs(one.seconds - usual_s), one.group))
    test, num_bytes = cell
    for _ in range(ROUNDS if suspects else 0):
        for one in (*suspects, control):
            yield Unit(test + RECHECK, num_bytes, (one.group,))

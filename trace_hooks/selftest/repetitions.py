"""Warm-ups and timed repetitions that fit a time, the same number on all ranks of a group."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

WARM_UPS = 5
FEWEST = 3
"""Timed repetitions, however long one takes."""


class Times(NamedTuple):
    """Repetitions of one measurement, s."""

    shortest: float
    median: float
    samples: int


def timed(
    once: Callable[[], None],
    seconds: float,
    samples: int,
    longest_of: Callable[[float], float] = lambda own: own,
) -> Times:
    """Repeat within about `seconds`, `samples` times at most after WARM_UPS.

    The second repetition decides how many there are (the first one connects and allocates).
    `longest_of`: the most that a rank of the group gives; all must repeat equally often.
    """
    once()
    begun = perf_counter()
    once()
    took = longest_of(perf_counter() - begun)
    fit = int(seconds / max(took, 1e-6))
    num = max(FEWEST, min(samples, fit - min(WARM_UPS, fit // 4)))
    for _ in range(min(WARM_UPS, fit // 4) - 2):
        once()
    taken = []
    for _ in range(num):
        begun = perf_counter()
        once()
        taken.append(perf_counter() - begun)
    return Times(min(taken), statistics.median(taken), num)

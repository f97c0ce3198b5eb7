"""CPU time of loops, as the benchmarks here measure it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

REPEATS = 30

SECONDS = 1.0


def cpu_ns(call: Callable[[], object], count: int, reset: Callable[[], object] = int) -> float:
    """Thread CPU ns of one call: the least of loops of `count` for SECONDS, empty loops taken off.

    The least, because on a shared machine other programs cause everything above it.
    """
    until_s, least = time.monotonic() + SECONDS, [loop_ns(call, count, reset)]
    while time.monotonic() < until_s:
        least.append(loop_ns(call, count, reset))
    return min(least)


def loop_ns(call: Callable[[], object], count: int, reset: Callable[[], object] = int) -> float:
    """Thread CPU ns of one call in one loop."""
    begun = time.thread_time_ns()
    for _ in range(count):
        call()
    called = time.thread_time_ns()
    for _ in range(count):
        pass
    ended = time.thread_time_ns()
    reset()
    return (2 * called - begun - ended) / count


def in_turns(ways: Iterable[str], rounds: int, turn: Callable[[str], T]) -> dict[str, list[T]]:
    """Results of each way's turns; each round runs every way once, in a different order."""
    names = list(ways)
    by_name: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            by_name[name].append(turn(name))
    return by_name

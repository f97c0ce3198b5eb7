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

    The least, because on a shared machine everything else in a loop is somebody else's.
    """
    until_s, found = time.monotonic() + SECONDS, [loop_ns(call, count, reset)]
    while time.monotonic() < until_s:
        found.append(loop_ns(call, count, reset))
    return min(found)


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
    """What each way's turns gave; each round runs every way once, in another order."""
    names = list(ways)
    found: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(turn(name))
    return found

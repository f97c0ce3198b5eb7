"""Blocks of steps that take turns: each way of training against steps without hooks around it.

A device's clock and its temperature change by more than the effect of interest, so only neighbours
are compared: a block with the mean of the blocks without hooks right before and after it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from benchmarks.gpu.figures import Place
from benchmarks.gpu.spread import Spread, spread
from trace_hooks.recording import guard

OFF = "without hooks"


class Block(NamedTuple):
    """One step of a block, ms: the means."""

    wall: float
    cpu: float
    """of the whole process, while the host launches; in it the host may spin until the device has
    room for more launches"""
    own: float
    """CPU time that the hooks report, on all threads"""
    gpu: float | None
    """between two CUDA events around the block, outside the hooks"""


def steps_in(place: Place, step: Callable[[], object], seconds: float) -> int:
    """How many steps of a warm model fit into this time; a few at least, 200 at most."""
    if place.is_rehearsal:
        return 2
    number = 5
    begun_s = time.monotonic()
    for _ in range(number):
        step()
    place.wait()
    return min(200, max(4, round(seconds * number / (time.monotonic() - begun_s))))


def measured(place: Place, step: Callable[[], object], num_steps: int) -> Block:
    """A block; the device is idle before and after it, and nothing waits for it in between."""
    gc.collect()
    around = [] if place.is_rehearsal else [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    place.wait()
    wall_ns, cpu_ns, own_ns = _clocks()
    for event in around[:1]:
        event.record()
    for _ in range(num_steps):
        step()
    for event in around[1:]:
        event.record()
    _, cpu_end_ns, own_end_ns = _clocks()
    place.wait()
    wall_end_ns = time.perf_counter_ns()
    gpu_ms = around[0].elapsed_time(around[1]) / num_steps if around else None
    each = num_steps * 1e6
    return Block(
        (wall_end_ns - wall_ns) / each,
        (cpu_end_ns - cpu_ns) / each,
        (own_end_ns - own_ns) / each,
        gpu_ms,
    )


def _clocks() -> tuple[int, int, int]:
    return time.perf_counter_ns(), time.process_time_ns(), guard.account.total_ns


Turns = Sequence[tuple[str, Block]]
"""Name of the way and its block, in order of time; every second one is of OFF."""


def percent_more(turns: Turns, way: str, value: Callable[[Block], float]) -> Spread:
    """By how much blocks of a way exceed those around them; raises ValueError without any."""
    return spread([100 * (own / around - 1) for own, around in _pairs(turns, way, value)])


def ms_more(turns: Turns, way: str, value: Callable[[Block], float]) -> Spread:
    """The same as a difference."""
    return spread([own - around for own, around in _pairs(turns, way, value)])


def _pairs(turns: Turns, way: str, value: Callable[[Block], float]) -> list[tuple[float, float]]:
    """(the block, the mean of the two around it)."""
    return [
        (value(turns[at][1]), (value(turns[at - 1][1]) + value(turns[at + 1][1])) / 2)
        for at in range(1, len(turns) - 1, 2)
        if turns[at][0] == way
    ]


def meets(own: Spread, null: Spread, aim: float) -> bool | None:
    """Whether a cost is within the aim; None where the null alone is spread over more than that,
    and most of the cost's blocks are no further from the null's than the aim.
    """
    if null.high - null.low <= 2 * aim:
        return own.median <= aim
    return False if own.low - null.high > aim else None

"""(c) Memory that the hooks take on the device and on the host, and how it grows.

Each way of recording trains in a process of its own, as does training without hooks, twice: the
second one is the null. `most on the device` is the peak of what was requested from torch's
allocator while the steps ran, after warming up. At the default level the hooks keep nothing on the
device, so it must be that of training alone; 1 MiB more is allowed. `taken of the device` is the
memory that is not free according to the driver; it also contains CUDA events and the bookkeeping of
pinned memory, and other processes on the device would disturb it. `growth` is the slope of a line
through the samples after the first quarter of the steps, per 1,000 steps; only the small model
trains for long enough. On the host the resident memory of the process counts, including the hooks'
modules; `pinned` is what torch holds for copies from the device (torch 2.7 and later report it).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.gpu.children import run_job
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.jobs.memory import OFF, Memory, Sample
from benchmarks.gpu.training import WORKLOADS

NUM_STEPS = {"small": 2_000, "large": 40}
WAYS = {
    OFF: "without hooks, again (null)",
    "layers": "level layers (default)",
    "statistics": "statistics in every 10th step",
    "watch": "attention of layer 0 watched in every 10th step",
}
PROMISED = "layers"
FREE_BYTES = 1 << 20
ENOUGH_STEPS = 1_000
LIMIT_S = 120.0
MIB = 1 << 20


def measure(place: Place) -> None:
    """The small model for many steps, the large one for its peaks."""
    for name in NUM_STEPS:
        place.attempt(WORKLOADS[name].name, partial(_compare, place, name))


def _compare(place: Place, name: str) -> None:
    alone = _memory_of(place, name, OFF)
    for way, title in WAYS.items():
        found = _memory_of(place, name, way)
        for figure in figures(f"{WORKLOADS[name].name}: {title}", alone, found, way == PROMISED):
            place.say_of_gpu(figure)


def figures(title: str, alone: Memory, memory: Memory, is_promised: bool) -> list[Figure]:
    """What a way takes more than training alone."""
    peak = memory.peak_requested - alone.peak_requested
    last, alone_last = memory.samples[-1], alone.samples[-1]
    num_steps = last.step
    return [
        Figure(
            f"{title}: most on the device",
            peak / MIB,
            "MiB more",
            holds=peak <= FREE_BYTES if is_promised else None,
            note=f"without hooks {alone.peak_requested / MIB:,.1f} MiB; allocated "
            f"{(memory.peak_allocated - alone.peak_allocated) / MIB:,.1f} MiB more",
        ),
        Figure(
            f"{title}: on the device after {num_steps} steps",
            (last.requested - alone_last.requested) / MIB,
            "MiB more",
        ),
        Figure(
            f"{title}: taken of the device after {num_steps} steps",
            (last.taken - alone_last.taken) / MIB,
            "MiB more",
            note=_growth_note(alone, memory, lambda one: one.taken),
        ),
        Figure(
            f"{title}: pinned memory after {num_steps} steps",
            (last.pinned - alone_last.pinned) / MIB,
            "MiB more",
            note=_growth_note(alone, memory, lambda one: one.pinned),
        ),
        Figure(
            f"{title}: memory of the host after {num_steps} steps",
            (last.rss - alone_last.rss) / MIB,
            "MiB more",
            note=f"without hooks {alone_last.rss / MIB:,.0f} MiB; "
            f"{_growth_note(alone, memory, lambda one: one.rss)}; {memory.dropped} rows dropped",
        ),
    ]


def _growth_note(alone: Memory, memory: Memory, value: Callable[[Sample], int]) -> str:
    if memory.samples[-1].step < ENOUGH_STEPS:
        return f"growth is looked at over {ENOUGH_STEPS} steps or more"
    own, without = (growth(one.samples, value) / MIB for one in (memory, alone))
    return f"growth per 1,000 steps {own:.2f} MiB, without hooks {without:.2f}"


def growth(samples: Sequence[Sample], value: Callable[[Sample], int]) -> float:
    """Bytes per 1,000 steps by least squares, the first quarter of the steps left out."""
    late = [sample for sample in samples if sample.step >= samples[-1].step / 4]
    if len(late) < 2:
        return 0.0
    slope = statistics.linear_regression(
        [sample.step for sample in late], list(map(value, late))
    ).slope
    return 1_000 * slope


def _memory_of(place: Place, name: str, way: str) -> Memory:
    num_steps = place.sized(NUM_STEPS[name], 8)
    ended = run_job("memory", (place.device, name, way, num_steps), LIMIT_S)
    if ended.fault:
        raise ValueError(f"{WAYS[way]}: {ended.fault}")
    return Memory.from_json(ended.found)

"""A run of two ranks whose steps of 100 ms are divided into parts that are known exactly."""

from __future__ import annotations

from pathlib import Path

from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout

STEP_US = 100_000
PEAK_TFLOPS = 1.0
FLOPS = 2 * 40e9
"""What two devices of 1e12 FLOP/s do in 40 ms."""
DP_GROUP = 7

PARTS_MS = {
    "compute": (77, 77),
    "moving_dp": (6, 6),
    "waiting": (4, 0),
    "data": (5, 5),
    "gc": (0, 4),
    "host": (2, 2),
    "checkpoint": (3, 3),
    "unseen": (3, 3),
}
"""Of both ranks in every step, ms per part."""


def mfu_run(folder: Path, num_steps: int = 2, flops: float | None = FLOPS) -> Path:
    """A collection stops rank 1 in its forward, and rank 0 waits for it in the reduce-scatter."""
    return changed_run(folder, num_steps, num_steps, flops)


def changed_run(
    folder: Path,
    num_steps: int,
    changed_at: int,
    flops: float | None = FLOPS,
    gc_ms: float = 4,
    has_gc: bool = True,
    move_ms: float = 0,
    first_step: int = 0,
) -> Path:
    """From step `changed_at` on rank 1 collects for `gc_ms` more on top of its 4 ms, and the
    reduce-scatter takes `move_ms` longer. `has_gc`: whether collections are recorded.
    """
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(dp=2))
    run.group(DP_GROUP, [0, 1], "dp")
    begin_us = 0.0
    for step in range(first_step, first_step + num_steps):
        is_changed = step >= changed_at
        gc_us = 1000 * (4 + (gc_ms if is_changed else 0))
        move_us = 1000 * (6 + (move_ms if is_changed else 0))
        for rank in range(2):
            end_us = _step(run, rank, step, begin_us, gc_us, move_us, has_gc, flops)
        begin_us = end_us
    run.rank_files()
    run.publish()
    return folder


def _step(
    run: RunBuilder,
    rank: int,
    step: int,
    begin_us: float,
    gc_us: float,
    move_us: float,
    has_gc: bool,
    flops: float | None,
) -> float:
    """One step; returns its end."""
    at = begin_us
    stopped_us = gc_us if rank == 1 else 0.0

    def span(kind: str, took_us: float, **values: object) -> None:
        nonlocal at
        if took_us:
            run.span(rank, step, kind, at, at + took_us, **{"name": kind, **values})
        at += took_us

    span("data_wait", 5_000)
    span("forward", 30_000)
    if has_gc:
        span("gc", stopped_us)
    else:
        at += stopped_us
    span("backward", 40_000)
    reduced = begin_us + 75_000 + gc_us + move_us
    run.collective(rank, step, DP_GROUP, step, at, reduced, op="reduce_scatter")
    span("dp_comm", reduced - at, name="reduce_scatter", group_id=DP_GROUP, coll_seq=step)
    span("optimizer", 7_000)
    span("checkpoint", 3_000)
    at += 3_000  # nothing is recorded
    span("host", 2_000)
    run.step(rank, step, begin_us, at, flops=flops)
    return at

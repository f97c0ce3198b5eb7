"""The run of most tests of saved queries: one rank of eight comes late in every step."""

from __future__ import annotations

from pathlib import Path

from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout

NUM_STEPS = 5
SLOW = 5


def build(folder: Path) -> Path:
    """dp 8 (so that every rank has peers), 5 steps of 100 us; rank 5 computes 20 us longer and the
    others wait for it in the all-reduce; rank 0 saves a checkpoint in step 2.
    """
    builder = RunBuilder(folder, 8, ParallelLayout.from_sizes(dp=8))
    builder.group(7, list(range(8)), "dp")
    for step in range(NUM_STEPS):
        t = step * 100.0
        for rank in range(8):
            ready = t + (70 if rank == SLOW else 50 if rank else 49)
            builder.step(
                rank, step, t, t + 100, tokens=100.0, flops=8e6, loss=2.0 - step, lr=0.1 * step
            )
            builder.span(rank, step, "data_wait", t, t + 10)
            builder.span(rank, step, "forward", t + 10, ready, cpu_ns=int(ready - t - 10) * US)
            builder.span(rank, step, "dp_comm", ready, t + 80, group_id=7, coll_seq=step)
            builder.span(rank, step, "optimizer", t + 80, t + 90, cpu_ns=10 * US)
            builder.collective(rank, step, 7, step, ready, t + 80, num_bytes=1000)
            builder.add("memory", rank, step, ts_ns=T0 + int(t + 90) * US, allocated=step * 10**6)
            builder.add(
                "heartbeats", rank, step, ts_ns=T0 + int(t) * US, self_ns=step * 1000, dropped=0
            )
    builder.span(0, 2, "checkpoint", 290, 300)
    builder.add("marks", 5, 1, ts_ns=T0 + 5, kind="fault", text="slow")
    builder.rank_files(end={"ts_ns": T0 + 600 * US, "status": "finished", "error": None})
    builder.publish()
    return builder.folder


def one(run, name, **params):
    """The only row of an answer."""
    rows = run.ask(name, **params).to_pylist()
    assert len(rows) == 1
    return rows[0]


def by_rank(run, name, **params):
    """Rows of an answer that has one for each rank."""
    return {row["rank"]: row for row in run.ask(name, **params).to_pylist()}

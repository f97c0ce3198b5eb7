"""A run whose data loaders have workers, one of them slow, with a mixture and a leak, and whose
sequences are long on one rank.
"""

from __future__ import annotations

from pathlib import Path

from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

MS, MB, S = 1_000_000, 1_000_000, 1_000_000_000
STEPS = 8
STEP_US = 100_000


def data_run(folder: Path) -> Path:
    """Two ranks of two workers: worker 1 of rank 1 takes 20 times as long, and grows. Rank 0 has
    long sequences.
    """
    run = RunBuilder(folder, 2)
    for rank in range(2):
        for step in range(STEPS):
            begin_us = step * STEP_US
            run.step(rank, step, begin_us, begin_us + STEP_US)
            run.span(rank, step, "data_wait", begin_us, begin_us + 1_000 + 3_000 * rank)
            _rows(run, rank, step)
            _sequences(run, rank, step)
            run.add("loader_standby", rank, step, ts_ns=T0 + step, lag_samples=4 + 50 * step * rank,
                    snapshot_age_s=2.0)  # fmt: skip
    run.rank_files()
    run.publish()
    return folder


def redundant_run(folder: Path) -> Path:
    """Two ranks of a tensor-parallel group that read the same batches, 8 MB in all."""
    run = RunBuilder(folder, 2, ParallelLayout((("tp", 2),)))
    own = {"loader": 0, "worker": 0, "pid": 70, "transform": "", "transform_ns": 0}
    for rank in range(2):
        for step in range(2):
            begin_us = step * STEP_US
            run.step(rank, step, begin_us, begin_us + STEP_US)
            run.span(rank, step, "data_wait", begin_us, begin_us + 1_000)
            run.add("data_batches", rank, step, ts_ns=T0, source="web", ids_hash=7 + step)
            run.add("loader_fetches", rank, step, **own, ts_ns=T0, fetch=step, source="web",
                    samples=8, wall_ns=MS, cpu_ns=MS, read_bytes=2 * MB)  # fmt: skip
    run.rank_files()
    run.publish()
    return folder


def _rows(run: RunBuilder, rank: int, step: int) -> None:
    at_ns = T0 + step * 20 * S
    run.add("data_batches", rank, step, ts_ns=at_ns, source="web", exposed_ns=MS, fetch_ns=-1)
    for source, samples in (("web", 6), ("code", 2)):
        run.add("batch_sources", rank, step, ts_ns=at_ns, source=source, samples=samples,
                planned=0.5)  # fmt: skip
    for worker in range(2):
        is_slow = (rank, worker) == (1, 1)
        wall_ns = (40 if is_slow else 2) * 8 * MS
        own = {"loader": 0, "worker": worker, "pid": 70 + worker, "ts_ns": at_ns}
        run.add("loader_fetches", rank, step, **own, source="web", samples=8, fetch=step,
                wall_ns=wall_ns, cpu_ns=wall_ns // 10, transform="", transform_ns=0,
                read_bytes=8 * MB)  # fmt: skip
        if rank == 1:
            pss = (100 + 30 * step) * MB if is_slow else -1
            run.add("loader_memory", rank, step, **own, pss_bytes=pss, rss_bytes=200 * MB)


def _sequences(run: RunBuilder, rank: int, step: int) -> None:
    """Two micro-batches: 1 ms, and 10 us a token; longer by a token in each step."""
    begin_us = step * STEP_US + 10_000
    for microbatch in range(2):
        lengths = [(1_000 if rank == 0 else 100) + step, 100]
        run.add("batch_lengths", rank, step, ts_ns=T0 + begin_us * 1_000, microbatch=microbatch,
                lengths=lengths)  # fmt: skip
        for kind, share in (("forward", 1 / 3), ("backward", 2 / 3)):
            end_us = begin_us + share * (1_000 + 10 * sum(lengths))
            run.span(rank, step, kind, begin_us, end_us, microbatch=microbatch,
                     cpu_ns=round((end_us - begin_us) * 1_000))  # fmt: skip
            begin_us = end_us

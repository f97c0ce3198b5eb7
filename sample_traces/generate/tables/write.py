"""Writes a synthetic job as a native run folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob, host_name
from sample_traces.generate.simulation.clocks import draw_clocks
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.simulation.shown import shown_times
from sample_traces.generate.tables.blocks import Block, Synthetic
from sample_traces.generate.tables.rank_tables import tables
from trace_hooks.schema import (
    SCHEMA_VERSION,
    RankInfo,
    RunInfo,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

RANKS_PER_FILE = 64
ROWS_PER_GROUP = 16_384
"""As in merged files: rows of one rank are read without those of most others."""

ATTEMPTS_APART_NS = 6 * 3600 * 10**9
CREATED_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z, so that equal jobs are equal to the byte."""


def generate(
    job: SyntheticJob, folder: Path, progress: Callable[[int], None] = lambda ranks: None
) -> int:
    """Write `job` to `folder` (made if missing, must be empty); returns the number of spans.

    A later attempt goes to the folder of those before it, ATTEMPTS_APART_NS behind. Files hold
    RANKS_PER_FILE ranks each and count as merged already. `progress` is called with the number of
    ranks written. Raises ValueError when the folder holds something.
    """
    if job.attempt == 0 and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty; name a new folder")
    durations = draw(job)
    begins_ns = CREATED_NS + job.attempt * ATTEMPTS_APART_NS
    times = shown_times(job, replay(job, durations, begins_ns))
    whole = Synthetic(job, durations, times, draw_clocks(job), begins_ns)
    for name in ("ranks", "compacted"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    num_spans = 0
    blocks = [
        Block(whole, first, min(first + RANKS_PER_FILE, job.num_ranks))
        for first in range(0, job.num_ranks, RANKS_PER_FILE)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy and Arrow release the lock
        for block, spans in zip(blocks, pool.map(partial(_write, folder), blocks), strict=True):
            num_spans += spans
            progress(int(block.rank[-1]) + 1)
    for rank in range(job.num_ranks):
        publish_json(rank_info(whole, rank), folder / "ranks" / rank_file_name(job.attempt, rank))
    publish_json(run_info(job, folder.name), folder / "run.json")
    return num_spans


def _write(folder: Path, block: Block) -> int:
    """Write the tables of a block; the number of its spans."""
    by_name = tables(block)
    for name, table in by_name.items():
        file = SegmentName(name, block.job.attempt, int(block.rank[0]), 0)
        publish_table(table, folder / "compacted" / str(file), ROWS_PER_GROUP)
    return by_name["spans"].num_rows if "spans" in by_name else 0


def run_info(job: SyntheticJob, run: str) -> RunInfo:
    """run.json of a synthetic job, with what was planted under truth."""
    return {
        "schema": SCHEMA_VERSION,
        "run": run,
        "created_ns": CREATED_NS,
        "clock": "absolute",
        "source": "synthetic",
        "framework": "synthetic",
        "versions": {},
        "truth": {"faults": [fault.to_json() for fault in job.faults], "seed": job.seed},
    }


def rank_info(whole: Synthetic, rank: int) -> RankInfo:
    """ranks/*.json of one rank of a synthetic job."""
    job = whole.job
    dead = any(fault.kind == "dead_rank" for fault in job.faults)
    end: dict[str, Any] | None = None
    if not dead:
        ended_ns = int(whole.times.ended[-1].max() - whole.clocks.offset_R[rank])
        end = {"ts_ns": ended_ns, "status": "finished", "error": None}
    return {
        "schema": SCHEMA_VERSION,
        "attempt": job.attempt,
        "rank": rank,
        "world_size": job.num_ranks,
        "host": host_name(rank),
        "pid": 1000 + rank % RANKS_PER_HOST,
        "local_rank": rank % RANKS_PER_HOST,
        "device": "cpu (synthetic)",
        "device_uuid": "",
        "started_ns": whole.created_ns,
        "layout": job.layout.to_json(),
        "coords": job.layout.coords(rank),
        "end": end,
        "hooks": {"level": job.level, "sources": [], "errors": {}, "dropped": 0},
    }

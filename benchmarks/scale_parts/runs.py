"""The run that scale.py measures: generated, indexed, and copied to a file for each rank."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.index.indexer import Indexer
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob
from sample_traces.generate.tables.write import generate
from trace_hooks.schema import publish_table

PP, TP, CHUNKS, MICROBATCHES = 8, 8, 2, 32
SLOW_SHARE, SLOWER = 0.005, 1.1
"""0.5 % of the machines compute 10 % more slowly (MegaScale, 2402.15627, section 5.1)."""

RAW_TABLES = ("spans", "collectives")


def slow_hosts(num_ranks: int, seed: int) -> list[int]:
    """Numbers of the machines that are slow, at least one."""
    num_hosts = num_ranks // RANKS_PER_HOST
    return sorted(Random(seed).sample(range(num_hosts), max(1, round(SLOW_SHARE * num_hosts))))


def make_job(num_ranks: int, num_steps: int, level: str, seed: int) -> SyntheticJob:
    """TP 8, PP 8, interleaved 1F1B of 2 chunks and 32 micro-batches; all ranks of slow machines
    compute more slowly from the first step on.
    """
    slow = tuple(
        SyntheticFault("slow_worker", RANKS_PER_HOST * host + local, SLOWER)
        for host in slow_hosts(num_ranks, seed)
        for local in range(RANKS_PER_HOST)
    )
    sizes = num_ranks, PP, TP, num_steps, MICROBATCHES, CHUNKS
    return SyntheticJob(*sizes, level=level, seed=seed, faults=slow)


def make_run(job: SyntheticJob, folder: Path) -> int:
    """Write the run; returns the number of its spans."""
    return generate(job, folder)


def index_run(folder: Path) -> None:
    """Index it from scratch, in one pass."""
    with Indexer(folder) as indexer:
        indexer.refresh()


def table_files(folder: Path, table: str) -> list[Path]:
    """Files of a table as generated, 64 ranks each."""
    return sorted((folder / "compacted").glob(f"{table}-*.parquet"))


def write_rank_files(folder: Path, raw: Path) -> None:
    """The same rows of RAW_TABLES, a file for each rank and table, as `raw`/TABLE/RANK.parquet."""
    for table in RAW_TABLES:
        (raw / table).mkdir(parents=True)
        for file in table_files(folder, table):
            rows = pq.read_table(file).unify_dictionaries()
            for rank, of_rank in _by_rank(rows):
                publish_table(of_rank, raw / table / f"{rank:05}.parquet")


def _by_rank(rows: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    """Rows are sorted by rank."""
    counts = rows["rank"].combine_chunks().value_counts().to_pylist()
    begin = 0
    for count in counts:
        yield count["values"], rows.slice(begin, count["counts"]).combine_chunks()
        begin += count["counts"]


def bytes_of(files: Iterable[Path]) -> int:
    """Together."""
    return sum(file.stat().st_size for file in files)


def evict(folder: Path) -> None:
    """Have the kernel forget the pages of the files below, so that they are read from disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)

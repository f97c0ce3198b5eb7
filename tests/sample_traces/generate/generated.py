"""Small synthetic jobs, and their rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.clocks import draw_clocks
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.tables.blocks import Synthetic
from sample_traces.generate.tables.write import generate

NUM_STEPS, NUM_MICROBATCHES = 6, 4


def made(folder: Path, *faults: str, num_ranks: int = 16, level: str = "spans") -> Path:
    job = SyntheticJob(
        num_ranks,
        pp=2,
        tp=2,
        num_steps=NUM_STEPS,
        num_microbatches=NUM_MICROBATCHES,
        level=level,
        faults=tuple(SyntheticFault.parse(fault) for fault in faults),
    )
    generate(job, folder)
    return folder


def synthetic(job: SyntheticJob) -> Synthetic:
    """A job before it is written; it began at 1 s."""
    durations = draw(job)
    return Synthetic(job, durations, replay(job, durations, 10**9), draw_clocks(job), 10**9)


def rows(run: Path, table: str) -> pa.Table:
    return pa.concat_tables(
        pq.read_table(path) for path in sorted((run / "compacted").glob(f"{table}-*.parquet"))
    )


def per_rank(run: Path, table: str, column: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows(run, table).select(["rank", column]).to_pylist():
        found.setdefault(row["rank"], []).append(row[column])
    return found


def compute_per_rank(run: Path, column: str = "cpu_ns", since: int = 0) -> np.ndarray:
    spans = rows(run, "spans")
    wanted = pc.and_(
        pc.is_in(spans["kind"].cast(pa.string()), pa.array(["forward", "backward"])),
        pc.greater_equal(spans["step"], since),
    )
    sums = spans.filter(wanted).group_by("rank").aggregate([(column, "sum")]).sort_by("rank")
    return sums[f"{column}_sum"].to_numpy().astype(float)

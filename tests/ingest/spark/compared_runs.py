"""Runs that both engines index, and everything that an index has of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from ingest.index.engine import Engine
from ingest.index.indexer import Indexer
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.folders import REPO
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import TABLES, rank_file_name

ROLLUPS = ("step_rollup", "kind_rollup", "collective_rollup")


def generated(folder: Path) -> Path:
    """16 ranks on 2 stages, of which one is slow from step 2 on, so that others wait for it."""
    fault = SyntheticFault.parse("slow_worker=5,x=1.3,from=2")
    generate(SyntheticJob(num_ranks=16, pp=2, tp=2, num_steps=6, faults=(fault,)), folder)
    return folder


def without_spans(folder: Path) -> Path:
    """Steps and collectives alone, as from logs."""
    builder = RunBuilder(folder, 3)
    builder.group(4, [0, 1, 2], "dp")
    for step in range(3):
        for rank in range(3):
            builder.step(rank, step, 100 * step, 100 * step + 99)
            builder.collective(rank, step, 4, step, 100 * step + 40 + rank, 100 * step + 60)
            builder.add("clocks", rank, step, ts_ns=T0 + 100 * step * US, offset_ns=rank)
    builder.rank_files()
    builder.publish()
    return folder


def recorded(folder: Path) -> Path:
    """A real job with a slow rank, recorded by the hooks."""
    shutil.copytree(REPO / "sample_traces/recorded/slow_rank", folder)
    shutil.rmtree(folder / "index", ignore_errors=True)
    return folder


def relative(folder: Path) -> Path:
    """Times start again in every step, and spans of one step lie in the time of another."""
    builder = RunBuilder(folder, 3, clock="per_step_relative", source="import")
    for step in range(4):
        for rank in range(3):
            builder.step(rank, step, 0, 100 + rank)
            builder.span(rank, step, "forward", 5, 60 + 7 * rank + step)
            builder.span(rank, step, "dp_comm", 50, 90)
    builder.rank_files()
    builder.publish()
    return folder


def unusual(folder: Path, num_segments: int = 1) -> Path:
    """What seldom occurs: members that are missing, unknown clocks, drift, an evaluation, spans
    without a row of their step and across steps, a second attempt, groups of three, a rank
    without a file.
    """
    builder = RunBuilder(folder, 4, ParallelLayout.from_sizes(pp=2, dp=2))
    for attempt in range(2):
        _estimates(builder, attempt)
        builder.group(1, [0, 1, 2], "dp", attempt)
        builder.group(2, [0, 1, 2, 3], "pp", attempt)
        builder.rank_files(attempt)
    (folder / "ranks" / rank_file_name(1, 3)).unlink()
    steps_at_once = max(24 // num_segments, 1)
    for step in range(24):
        for rank in range(4):
            _work(builder, rank, step, attempt=step // 16)
        if step % steps_at_once == 0:
            builder.publish()
    builder.publish()
    return folder


def _estimates(builder: RunBuilder, attempt: int) -> None:
    for rank in range(3):  # the clock of rank 3 stays unknown
        for number in range(3):
            when = {"ts_ns": T0 + number * 800 * US + 13 * rank}
            drift = {"offset_ns": 1000 * rank + number, "drift_ppb": 333 * rank + 7 * number}
            builder.add("clocks", rank, -1, attempt, **when, **drift)


def _work(builder: RunBuilder, rank: int, step: int, attempt: int) -> None:
    t, where = step * 100.0, {"attempt": attempt}
    if (rank, step) != (1, 5):  # this one was not recorded as finished
        builder.step(rank, step, t, t + 97, **where)
    builder.span(rank, step, "data_fetch", t, t + 4, track="loader", **where)
    builder.span(rank, step, "data_wait", t, t + 3, **where)
    builder.span(rank, step, "forward", t + 3, t + 40, cpu_ns=(30 + rank) * US, **where)
    builder.span(rank, step, "host", t + 10, t + 20, cpu_ns=3 * US, **where)
    builder.span(rank, step, "backward", t + 40, t + 70 + 3 * rank, cpu_ns=20 * US, **where)
    builder.span(rank, step, "checkpoint", t + 95, t + 103, **where)  # into the next step
    if step == 7:
        builder.span(rank, step, "evaluation", t + 60, t + 90, **where)
        builder.span(rank, step, "forward", t + 62, t + 80, **where)
    for seq in range(3):
        start, number = t + 71 + 3 * rank + 2 * seq, 3 * step + seq
        if rank < 3:
            of_three = {"num_bytes": 1000 + seq, **where}
            builder.collective(rank, step, 1, number, start, t + 85 + seq, **of_three)
        if (rank, step, seq) != (2, 9, 1):  # a member is missing
            end = -1 if (rank, step) == (0, 11) else t + 90 + seq
            builder.collective(rank, step, 2, number, start, end, op="all_gather", **where)
    pair = {"op": "send" if rank < 2 else "recv", "peer": (rank + 2) % 4, "tag": 3, **where}
    builder.collective(rank, step, 2, step, t + 30 + rank, t + 36, **pair)


RUNS = {
    "generated": generated,
    "recorded": recorded,
    "relative": relative,
    "unusual": unusual,
    "without spans": without_spans,
}


def indexed(folder: Path, engine: Engine) -> dict[str, list[str]]:
    """Index a run; the rows of its rollups, and how many rows each table has with which sum of
    hashes, in the files that the manifest names.
    """
    with Indexer(folder, engine=engine) as indexer:
        indexer.refresh()
        database = indexer.database
        rows = {name: _sorted(database.connection, f"FROM {name}") for name in ROLLUPS}
        for table in TABLES:
            files = database.absolute(database.manifest.pick(table))
            if files:
                rows[table] = _sorted(database.connection, _CHECKSUM, files)
        return rows


_CHECKSUM = (
    "SELECT count(*), sum(hash(r)::HUGEINT) FROM read_parquet($files, hive_partitioning = false,"
    " union_by_name = true) r"
)


def _sorted(
    connection: duckdb.DuckDBPyConnection, text: str, files: list[str] | None = None
) -> list[str]:
    rows = connection.execute(text, {"files": files} if files else {}).fetchall()
    return sorted(map(repr, rows))

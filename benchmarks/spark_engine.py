"""What a pass and the heaviest questions cost on Spark and on DuckDB, whose rows are equal.

.venv-spark/bin/python -m benchmarks.spark_engine [--ranks 64 1024 4096] [--write docs/scale.md]

Generates jobs of TP 4 and PP 4 that record every span, and indexes each from nothing with both
engines; Spark on a cluster of two workers of one core on loopback, after one small run that warms
it up. CPU seconds are those of all processes: the command, Spark's driver, executors and their
Python. Ends with an error where a row of an index or of an answer differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.page_part import write_part
from ingest.index.engine import Engine
from ingest.index.indexer import Indexer
from ingest.run import open_run
from ingest.spark.cluster import spark_session
from ingest.spark.engine import SparkEngine
from ingest.spark.questions import spark_answers
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.ingest.spark.local_cluster import SETTINGS, LocalCluster

BEGIN = "<!-- benchmarks.spark_engine replaces what follows -->"
END = "<!-- end of spark_engine -->"
ROLLUPS = ("step_rollup", "kind_rollup", "collective_rollup")
QUESTIONS = ("heat_map", "slowest_ranks", "rank_work", "late_ranks", "transfers")
HEADER = (
    "| ranks | spans | engine | pass, s | CPU s | CPU s per million spans "
    f"| {len(QUESTIONS)} questions, s |\n|---|---|---|---|---|---|---|"
)
WHOLE_COMPILER = {k: v for k, v in SETTINGS.items() if not k.endswith("JavaOptions")}
"""Tests have Java compile quickly instead of well."""
_SUM = "SELECT count(*), sum(hash(r)::HUGEINT) FROM {} r"
_TICKS = os.sysconf("SC_CLK_TCK")

Rows = dict[str, list[str]]


@dataclass(frozen=True)
class Cost:
    """Seconds of a pass and of the questions, and all their rows."""

    wall_s: float
    cpu_s: float
    questions_s: float
    rows: Rows


def cpu_s() -> float:
    """CPU seconds of this process and all that come from it, those that have ended included."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        stats[int(path.parent.name)] = int(after[1]), sum(map(int, after[11:15])) / _TICKS
    ours, total = {os.getpid()}, 0.0
    while ours:
        total += sum(stats[pid][1] for pid in ours if pid in stats)
        ours = {pid for pid, (parent, _) in stats.items() if parent in ours}
    return total


def rollup_sums(connection: duckdb.DuckDBPyConnection) -> Rows:
    """How many rows each rollup has, and the sum of their hashes."""
    return {name: list(map(str, connection.sql(_SUM.format(name)).fetchall())) for name in ROLLUPS}


@contextmanager
def answers(folder: Path, spark: Any) -> Iterator[Callable[..., Any]]:
    """What answers a saved query: DuckDB, or Spark where there is a session."""
    with open_run(folder) as run:
        if spark is None:
            yield run.ask
        else:
            with spark_answers(spark, run) as answer:
                yield answer


def cost(folder: Path, engine: Engine, spark: Any = None) -> Cost:
    """Index the run from nothing, then ask the questions about all of its ranks and steps."""
    shutil.rmtree(folder / "index", ignore_errors=True)
    begun, used = time.perf_counter(), cpu_s()
    with Indexer(folder, engine=engine) as indexer:
        indexer.refresh(merge=False)
        wall, cpu = time.perf_counter() - begun, cpu_s() - used
        rows = rollup_sums(indexer.database.connection)
    begun = time.perf_counter()
    with answers(folder, spark) as answer:
        found = {name: answer(name) for name in QUESTIONS}
        questions = time.perf_counter() - begun
    for name, table in found.items():
        rows[name] = sorted(repr(tuple(row.values())) for row in table.to_pylist())
    return Cost(wall, cpu, questions, rows)


def compared(
    folder: Path, spark: Any, ranks: int, num_steps: int
) -> tuple[list[str], tuple[int, float, float]]:
    """Rows of the table for one size, with its spans and the CPU seconds of DuckDB and of Spark;
    ends the program where the engines differ.
    """
    job = SyntheticJob(num_ranks=ranks, pp=4, tp=4, num_steps=num_steps, num_microbatches=8)
    num_spans = generate(job, folder)
    costs = {"DuckDB": cost(folder, Engine()), "Spark": cost(folder, SparkEngine(spark), spark)}
    differing = [n for n, rows in costs["DuckDB"].rows.items() if costs["Spark"].rows[n] != rows]
    if differing:
        sys.exit(f"{ranks} ranks: the engines differ in {', '.join(differing)}")
    lines = [
        f"| {ranks:,} | {num_spans:,} | {name} | {found.wall_s:.1f} | {found.cpu_s:.1f}"
        f" | {found.cpu_s / num_spans * 1e6:.1f} | {found.questions_s:.1f} |"
        for name, found in costs.items()
    ]
    return lines, (num_spans, costs["DuckDB"].cpu_s, costs["Spark"].cpu_s)


def report(folder: Path, sizes: list[int], num_steps: int) -> str:
    """Conditions and the table."""
    cluster, lines, costs = LocalCluster(folder), [HEADER], []
    conditions = (
        f"cores {os.cpu_count()}, load_1min {os.getloadavg()[0]:.2f}, python"
        f" {platform.python_version()}, DuckDB {duckdb.__version__}, {num_steps} steps"
    )
    try:
        begun = time.perf_counter()
        cluster.start_workers(2)
        with spark_session(cluster.url, WHOLE_COMPILER) as spark:
            started_s = time.perf_counter() - begun
            small = SyntheticJob(num_ranks=16, pp=4, tp=4, num_steps=2)
            generate(small, folder / "small")
            warm_up = cost(folder / "small", SparkEngine(spark), spark)
            for ranks in sizes:
                rows, of_size = compared(folder / f"ranks-{ranks}", spark, ranks, num_steps)
                print(*rows, sep="\n", flush=True)
                lines += rows
                costs.append(of_size)
                shutil.rmtree(folder / f"ranks-{ranks}")
            conditions += f", Spark {spark.version}"
    finally:
        cluster.stop()
    first_s = warm_up.wall_s + warm_up.questions_s
    spans, duckdb_s, spark_s = (
        last - first for first, last in zip(costs[0], costs[-1], strict=True)
    )
    summary = (
        "From the smallest to the largest size, a million spans more take"
        f" {duckdb_s / spans * 1e6:.1f} CPU s on DuckDB and {spark_s / spans * 1e6:.1f} on Spark;"
        " the rest of Spark's time is the same for any run: planning, starting tasks and"
        " compiling. "
        f"Before that, two workers and the session took {started_s:.0f} s to start, and a first"
        f" pass of 16 ranks with its questions {first_s:.0f} s."
    )
    return "\n\n".join((conditions, "\n".join(lines), summary))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 1024, 4096])
    parser.add_argument("--steps", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        text = report(Path(name), arguments.ranks, arguments.steps)
    print(text)
    if arguments.write is not None:
        write_part(arguments.write, BEGIN, END, text)


if __name__ == "__main__":
    main()

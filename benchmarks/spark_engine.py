"""What a pass costs on Spark and on DuckDB, at growing sizes, and that both have the same rows.

.venv-spark/bin/python benchmarks/spark_engine.py [--ranks 64 256 1024] [--steps 8]

Generates jobs that record every span, and indexes each from nothing with both engines; Spark on a
cluster of two workers of one core on loopback, after one small run that warms it up. CPU seconds
are those of all processes: the command, Spark's driver, executors and their Python. On one machine
Spark can only be slower: what counts is its CPU time per million spans, which a cluster divides
among its cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ingest.index.engine import Engine  # noqa: E402
from ingest.index.indexer import Indexer  # noqa: E402
from ingest.spark.cluster import spark_session  # noqa: E402
from ingest.spark.engine import SparkEngine  # noqa: E402
from sample_traces.generate.job import SyntheticJob  # noqa: E402
from sample_traces.generate.tables.write import generate  # noqa: E402
from tests.ingest.spark.local_cluster import SETTINGS, LocalCluster  # noqa: E402

ROLLUPS = ("step_rollup", "kind_rollup", "collective_rollup")
_TICKS = os.sysconf("SC_CLK_TCK")


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


def indexed(folder: Path, engine: Engine) -> tuple[float, float, list[object]]:
    """Wall and CPU seconds of a pass, and a checksum of each rollup."""
    shutil.rmtree(folder / "index", ignore_errors=True)
    begun, used = time.perf_counter(), cpu_s()
    with Indexer(folder, engine=engine) as indexer:
        indexer.refresh(merge=False)
        took = time.perf_counter() - begun, cpu_s() - used
        sums = [
            indexer.database.connection.execute(
                f"SELECT count(*), sum(hash(r)::HUGEINT) FROM {name} r"  # noqa: S608
            ).fetchall()
            for name in ROLLUPS
        ]
    return *took, sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cluster = LocalCluster(Path(name))
        try:
            cluster.start_workers(2)
            with spark_session(cluster.url, SETTINGS) as spark:
                compare(Path(name), SparkEngine(spark), arguments.ranks, arguments.steps)
        finally:
            cluster.stop()


def compare(folder: Path, spark: SparkEngine, sizes: list[int], num_steps: int) -> None:
    """Print a row for each size."""
    small = SyntheticJob(num_ranks=8, pp=2, tp=2, num_steps=4)
    generate(small, folder / "small")
    indexed(folder / "small", spark)
    print(
        "| ranks | steps | spans | engine | wall s | CPU s | CPU s per million spans | rows equal |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for ranks in sizes:
        run = folder / f"ranks-{ranks}"
        job = SyntheticJob(num_ranks=ranks, pp=4, tp=4, num_steps=num_steps, num_microbatches=8)
        num_spans = generate(job, run)
        duckdb = indexed(run, Engine())
        for engine, (wall, cpu, sums) in (("DuckDB", duckdb), ("Spark", indexed(run, spark))):
            is_equal = "" if engine == "DuckDB" else "yes" if sums == duckdb[2] else "NO"
            print(
                f"| {ranks} | {num_steps} | {num_spans:,} | {engine} | {wall:.1f} | {cpu:.1f} |"
                f" {cpu / num_spans * 1e6:.1f} | {is_equal} |",
                flush=True,
            )
        shutil.rmtree(run)


if __name__ == "__main__":
    main()

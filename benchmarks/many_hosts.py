"""How long the index takes for what all hosts of a large job publish at once, and what bounds it.

python -m benchmarks.many_hosts [--ranks 12288] [--flushes 4] [--level steps]

Each host of 8 ranks publishes a bundle every 10 s (docs/scale.md). The bundles of a flush, here
with the rows of one step, are written into the run folder, then a pass takes them in and merges
what is due: again and again, so that the index and the number of its files grow. The index keeps up
where a pass takes less than 10 s. CPU seconds of all threads, in a process of its own, under
Python's profiler, which adds to them; phases that call another have its time, too.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.scale_parts.own_process import in_own_process
from benchmarks.scale_parts.runs import make_job, make_run
from ingest.index.indexer import Indexer
from sample_traces.generate.job import RANKS_PER_HOST
from trace_hooks.schema.bundles import BundleName, write_bundle

SEED = 1
PHASES = {
    "bundles unpacked": "bundles.unpack_bundles",
    "footers of new files": "manifest.read_entry",
    "new rows and rollups": "indexer._derive",
    "of that: rollups": "rollup_pass.update",
    "of that: clocks": "clocks.store_clocks",
    "merging": "compaction.merge_due",
    "of that: reading and writing": "merging.publish_merged",
    "snapshot published": "snapshots.publish_snapshot",
    "old files deleted": "compaction.delete_retired",
}


def hosts_of(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """First rank of each host, with its rows; rows are of one band of ranks."""
    host = pc.divide(rows["rank"], RANKS_PER_HOST)
    for number in pc.unique(host).to_pylist():
        yield number * RANKS_PER_HOST, rows.filter(pc.equal(host, number)).unify_dictionaries()


def write_flush(whole: Path, run: Path, step: int) -> int:
    """Write the bundles of all hosts with the rows of a step; how many."""
    by_host: dict[int, dict[str, pa.Table]] = {}
    for path in sorted((whole / "compacted").iterdir()):
        rows = pq.read_table(path)
        for rank, of_host in hosts_of(rows.filter(pc.equal(rows["step"], step))):
            by_host.setdefault(rank, {})[path.name.partition("-")[0]] = of_host
    for rank, tables in by_host.items():
        name = BundleName(0, rank, time.time_ns())
        with (run / "segments" / str(name)).open("xb") as file:
            write_bundle(file, name, tables)
    return len(by_host)


def passes(whole: Path, run: Path, flushes: int) -> list[dict[str, float]]:
    """What a pass over each flush takes, CPU s by phase."""
    found = []
    with Indexer(run) as indexer:
        indexer.refresh()
        for step in range(flushes):
            num_bundles = write_flush(whole, run, step)
            profile = cProfile.Profile(time.process_time)
            profile.enable()
            result = indexer.refresh()
            profile.disable()
            calls = {
                f"{Path(file).stem}.{name}": row[3]
                for (file, _, name), row in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
            }
            (num_files,) = indexer.database.connection.execute(
                "SELECT count(*) FROM files"
            ).fetchall()[0]
            found.append(
                {
                    "bundles": num_bundles,
                    "files in them": result.new_files,
                    "the whole pass": calls["indexer.refresh"],
                    **{phase: calls.get(name, 0.0) for phase, name in PHASES.items()},
                    "files after it": num_files,
                }
            )
    return found


def measured(folder: Path, options: argparse.Namespace) -> tuple[list[dict[str, float]], Any]:
    """Generate the job and index its flushes; the passes and what their process cost."""
    whole, run = folder / "whole", folder / "run"
    make_run(make_job(options.ranks, options.flushes, options.level, SEED), whole)
    shutil.copytree(whole, run, ignore=shutil.ignore_patterns("compacted"))
    (run / "segments").mkdir()
    return in_own_process(passes, whole, run, options.flushes)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--ranks", type=int, default=12_288, help="a multiple of 64 (%(default)s)")
    add("--flushes", type=int, default=4, help="bundles of each host, one after the other")
    add("--level", choices=("steps", "spans"), default="steps", help="%(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found, cost = measured(Path(folder), options)
    numbers = range(1, len(found) + 1)
    print(f"| {options.ranks:,} ranks | " + " | ".join(f"flush {n}" for n in numbers) + " |")
    print("|---" * (len(found) + 1) + "|")
    for name in found[0]:
        cells = (one[name] for one in found)
        print(f"| {name} | " + " | ".join(_figure(value) for value in cells) + " |")
    print(f"\npeak memory {cost.peak_mb:,.0f} MB")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


if __name__ == "__main__":
    main()

"""How fast a run is indexed, what memory that takes, and what the time goes to.

python benchmarks/index_speed.py [--ranks 1024] [--steps 20] [--rounds 5] [--before COMMIT] [--json]

Generates a job that records every span, and indexes it from nothing, each time in a process of its
own that has indexed a small run before: the first pass of a process also imports modules. Once with
files of 64 ranks, as merging leaves them, and once with a segment for each rank and table, as ranks
publish them; these are not merged. --before also runs the code of an older commit, in turns with
that of the working tree. Numbers are CPU seconds of all threads of the process: on a shared machine
those of the wall mean nothing. The last table is of one more pass under Python's profiler.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from timing import in_turns

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from trace_hooks.schema import SegmentName, publish_table  # noqa: E402

PASS = """
import cProfile, json, pstats, resource, sys, time
from pathlib import Path
from ingest.index.indexer import Indexer

def indexed(folder, profile):
    with Indexer(Path(folder)) as indexer:
        begun = time.process_time()
        if profile:
            profile.enable()
        indexer.refresh(merge=False)
        if profile:
            profile.disable()
        return time.process_time() - begun

indexed(sys.argv[1], None)
profile = cProfile.Profile(time.process_time) if sys.argv[3] else None
seconds = indexed(sys.argv[2], profile)
calls = {}
if profile:
    for (file, _, name), row in pstats.Stats(profile).stats.items():
        calls[Path(file).stem + "." + name] = row[3]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "peak_mb": peak, "calls": calls}))
"""

PHASES = {
    "footers of the files": ("manifest.read_entry",),
    "collectives: clocks, members of each instance (DuckDB)": ("collective_pass.load",),
    "reading spans, windows and transfers (DuckDB)": (
        *("rollup_pass._spans", "rollup_pass._windows"),
        *("rollup_pass._transfers", "rollup_pass._are_known", "collective_pass.show"),
    ),
    "spans cut at the steps' borders": ("rollups._cut",),
    "innermost span of each track": ("intervals.owned_segments",),
    "tracks and transfers laid over each other": ("intervals.overlay",),
    "sums of states": ("states.sums",),
    "CPU time without the spans inside": ("rollups._cpu_and_counts",),
    "writing rollups": ("rollup_pass._store",),
}
"""Phase -> functions whose time it is; none of them calls another."""


def generate(folder: Path, ranks: int, steps: int) -> None:
    """A job of 8 x 8 tensor- and pipeline-parallel ranks, or of as many as there are."""
    size = ["--pp", "8", "--tp", "8"] if ranks % 64 == 0 else ["--pp", "1", "--tp", "1"]
    command = ["generate", "--ranks", str(ranks), "--steps", str(steps), *size, str(folder)]
    code = "import sys; from app.cli import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", code, *command], check=True, stdout=subprocess.DEVNULL)


def cut_by_rank(run: Path, folder: Path) -> None:
    """The same run with a segment for each rank and table."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("compacted", "index"))
    (folder / "segments").mkdir()
    for path in sorted((run / "compacted").iterdir()):
        table, rows = path.name.partition("-")[0], pq.read_table(path)
        for rank, of_rank in parts_by_rank(rows):
            publish_table(of_rank, folder / "segments" / str(SegmentName(table, 0, rank, 0)))


def parts_by_rank(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """(rank, rows) of each rank."""
    for rank in pc.unique(rows["rank"]).to_pylist():
        yield rank, rows.filter(pc.equal(rows["rank"], rank)).unify_dictionaries()


def code_of(commit: str, folder: Path) -> Path:
    """The program as it was at a commit."""
    command = ["git", "-C", str(ROOT), "archive", commit]
    content = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def index(code: Path, small: Path, run: Path, profile: str = "") -> dict[str, object]:
    """Index a run from nothing with the code in a folder."""
    for folder in (small, run):
        shutil.rmtree(folder / "index", ignore_errors=True)
    result = subprocess.run(
        [sys.executable, "-c", PASS, str(small), str(run), profile],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(code)},
        cwd=code,
    )
    found: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return found


def rows_of(run: Path, table: str) -> int:
    """Rows of a table, by the files' footers."""
    return sum(pq.read_metadata(p).num_rows for p in run.glob(f"*/{table}-*.parquet"))


def measured(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """All passes, as numbers."""
    small, merged, segments = folder / "small", folder / "merged", folder / "segments"
    generate(small, 8, 4)
    generate(merged, options.ranks, options.steps)
    cut_by_rank(merged, segments)
    codes = {"now": ROOT}
    if options.before:
        codes = {"before": code_of(options.before, folder / "before"), **codes}
    runs = {"files of 64 ranks": merged, "a segment per rank and table": segments}
    ways = {f"{code}: {run}": (codes[code], runs[run]) for run in runs for code in codes}
    turns = in_turns(ways, options.rounds, lambda name: index(ways[name][0], small, ways[name][1]))
    profile = index(ROOT, small, merged, "profiled")
    return {
        "spans": rows_of(merged, "spans"),
        "collectives": rows_of(merged, "collectives"),
        "num_files": {name: len(list(run.glob("*/*.parquet"))) for name, run in runs.items()},
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "ways": turns,
        "phases": phases(profile),
    }


def phases(profile: dict[str, object]) -> dict[str, float]:
    """CPU seconds of each phase, and of what is in none."""
    calls = profile["calls"]
    assert isinstance(calls, dict)
    found = {phase: sum(calls.get(name, 0.0) for name in names) for phase, names in PHASES.items()}
    total = calls["indexer.refresh"]
    return {**found, "all else (manifest, steps, commit, snapshot)": total - sum(found.values())}


def show(found: dict[str, object]) -> None:
    """The tables for people, in Markdown."""
    spans = found["spans"]
    print(f"{spans:,} spans, {found['collectives']:,} rows of collectives; files: ", end="")
    print("; ".join(f"{number:,} ({name})" for name, number in found["num_files"].items()))
    print(f"{found['cores']} cores, load {found['load']}\n")
    print("| | CPU s | least | M spans/s and core | peak MB |\n|---|---|---|---|---|")
    for name, turns in found["ways"].items():
        seconds = [turn["seconds"] for turn in turns]
        middle = statistics.median(seconds)
        peak = max(turn["peak_mb"] for turn in turns)
        rate = spans / middle / 1e6
        print(f"| {name} | {middle:.2f} | {min(seconds):.2f} | {rate:.2f} | {peak:,.0f} |")
    total = sum(found["phases"].values())
    print("\n| | CPU s | share |\n|---|---|---|")
    for name, seconds in found["phases"].items():
        print(f"| {name} | {seconds:.2f} | {seconds / total:.0%} |")


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each way (5)")
    parser.add_argument("--before", metavar="COMMIT", help="also the code of this commit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(options, Path(folder))
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()

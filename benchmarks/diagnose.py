"""CPU time and memory of `rankscope diagnose`, also of another checkout in the same run.

python benchmarks/diagnose.py [RUN ..] [--before CHECKOUT] [--rounds 5] [--whole]

RUN is a run folder or what `rankscope import` reads. Without any, a job of 16 ranks x 500 steps is
generated; --whole adds one of 12,288 ranks x 50 steps (100 MB, a minute). Each round diagnoses
every run once per checkout, in turns and in a process of its own, after one diagnosis that only
warms up (not of the large job).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import in_turns

MB = 10**6
HERE = Path(__file__).resolve().parents[1]
FAULT = "slow_worker=11,x=1.3,from=10"
SMALL = ("--ranks", "16", "--steps", "500", "--microbatches", "2")
LARGE = ("--ranks", "12288", "--pp", "8", "--tp", "8", "--steps", "50", "--level", "steps")


class Measured(NamedTuple):
    """One diagnosis: CPU s of all threads, the process's peak memory in MB, number of findings."""

    cpu_s: float
    peak_mb: float
    num_findings: int


def measure_here(path: Path, warm_up: bool) -> Measured:
    """In this process, by the code on sys.path."""
    from app.analysis.diagnosis import diagnose_run
    from ingest.run import open_run

    with open_run(path, refresh=False) as run:
        if warm_up:
            diagnose_run(run)
        began = time.process_time()
        diagnosis = diagnose_run(run)
        spent = time.process_time() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
    return Measured(spent, peak_mb, len(diagnosis.findings))


def measure(checkout: Path, path: Path, warm_up: bool) -> Measured:
    """In a new process that imports the checkout's modules."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", str(path)]
    command += ["--warm-up"] if warm_up else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(checkout), str(HERE)))}
    done = subprocess.run(
        command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return Measured(*json.loads(done.stdout))


def rankscope(*arguments: str) -> str:
    """What the verb prints; ends the benchmark where it fails."""
    code = "from app.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"rankscope {' '.join(arguments)}: {ended.stderr.strip()}")
    return ended.stdout


def indexed(path: Path, folder: Path) -> Path:
    """The run at `path`, read by `rankscope import` first where it is not one; indexed."""
    if not (path / "run.json").exists():
        printed = rankscope("import", str(path), "--into", str(folder), "--json")
        path = Path(json.loads(printed)["folder"])
    rankscope("index", str(path))
    return path


def generated(sizes: tuple[str, ...], run: Path) -> Path:
    rankscope("generate", *sizes, "--fault", FAULT, str(run))
    rankscope("index", str(run))
    return run


def report(path: Path, checkouts: dict[str, Path], rounds: int) -> None:
    """Print the medians of a run's rounds, and the ratio to the other checkout."""
    warm_up = path.name != "12288x50"
    by_name = in_turns(
        checkouts, rounds, lambda name: measure(checkouts[name].resolve(), path, warm_up)
    )
    medians = {name: statistics.median(one.cpu_s for one in by_name[name]) for name in by_name}
    for name, measured in by_name.items():
        each = " ".join(f"{one.cpu_s:.3f}" for one in measured)
        peak_mb = max(one.peak_mb for one in measured)
        print(
            f"{path.name:24} {name:7} {medians[name]:8.3f} s CPU ({each}), "
            f"peak {peak_mb:.0f} MB, {measured[0].num_findings} findings"
        )
    if "before" in medians:
        print(f"{path.name:24} ratio {medians['now'] / medians['before']:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--before", type=Path, help="another checkout of rankscope")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="also 12,288 ranks x 50 steps")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure_here(arguments.one, arguments.warm_up)))
        return
    checkouts = {"now": HERE}
    if arguments.before is not None:
        checkouts["before"] = arguments.before
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs = [indexed(path.resolve(), folder) for path in arguments.runs]
        if not runs:
            runs.append(generated(SMALL, folder / "16x500"))
        if arguments.whole:
            runs.append(generated(LARGE, folder / "12288x50"))
        for path in runs:
            report(path, checkouts, arguments.rounds)


if __name__ == "__main__":
    main()

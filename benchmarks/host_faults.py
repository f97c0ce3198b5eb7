"""Faults of one machine in real jobs of 8 ranks on four hosts: who and what `rankscope` names.

python -m benchmarks.host_faults --results FILE [--episodes 36] [--healthy MINUTES] [--seed N]
    [--fault NAME ..] [--keep FOLDER]
python -m benchmarks.host_faults --again FOLDER --results FILE    kept runs, the rules of today
python -m benchmarks.host_faults --report FILE [--write docs/accuracy-hosts.md]

The hosts are one machine (hosts/launch.py): each has a name, a network and groups for CPU, memory
and disks of its own, so the kernel makes the faults for real, but all share its cores and its disk.
Needs root on Linux. Each job has two faults, one after the other; kinds, doses and hosts are drawn
with a seed from a shuffled deck. What counts as right stands in hosts/faults.py. Every finished job
is appended to the results; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.hosts.faults import KINDS
from benchmarks.hosts.job import NUM_HOSTS, Episode, Job, judge, run_job
from benchmarks.hosts.report import report
from benchmarks.page_part import write_part
from benchmarks.real_faults import repeat

MARK = "<!-- host_faults replaces what follows -->"
TRUTH = "truth.jsonl"
"""In the folder of a kept run."""
HEALTHY_STEPS = 400


def drawn(seed: int, names: list[str]) -> Iterator[list[tuple[str, float, int]]]:
    """Jobs without end, always the same for one seed: name, dose and host of two faults each."""
    source, deck = random.Random(seed), list[tuple[str, float]]()
    while True:
        faults = []
        for _ in range(2):
            if not deck:
                deck = [(name, dose) for name in names for dose in KINDS[name].doses]
                source.shuffle(deck)
            name, dose = deck.pop()
            faults.append((name, dose, source.randrange(NUM_HOSTS)))
        yield faults


def read(path: Path) -> list[Job]:
    """Finished jobs; none where there is no file."""
    if not path.exists():
        return []
    return [job_of(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def job_of(row: dict[str, Any]) -> Job:
    """The job of a line."""
    return Job(**row | {"episodes": [Episode(**episode) for episode in row["episodes"]]})


def append(path: Path, job: Job) -> None:
    """Add its line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(job.to_json()) + "\n")


def one_job(options: argparse.Namespace, faults: list[tuple[str, float, int]]) -> Job:
    """Run, judge and append it; its folder is kept where that was asked for."""
    scratch = Path(tempfile.mkdtemp(prefix="rankscope-hosts-"))
    folder = scratch / "runs" / time.strftime("%Y%m%d-%H%M%S")
    try:
        job = run_job(folder, faults, HEALTHY_STEPS)
        judge(job, folder)
        append(options.results, job)
        if options.keep:
            shutil.copytree(folder, options.keep / folder.name)
            append(options.keep / folder.name / TRUTH, job)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return job


def again(options: argparse.Namespace) -> None:
    """Judge kept runs that the results do not have yet."""
    done = {job.name for job in read(options.results)}
    for truth in sorted(options.again.glob(f"*/{TRUTH}")):
        (job,) = read(truth)
        if job.name not in done:
            judge(job, truth.parent)
            append(options.results, job)
            print_job(job)


def print_job(job: Job) -> None:
    """A line for the job, and some for each of its episodes."""
    print(f"{job.name}: {job.num_steps} steps, {job.step_ms:.0f} ms without a fault", flush=True)
    for episode in job.episodes:
        who, cause = (("NOT", "right")[is_so] for is_so in (episode.who, episode.cause))
        print(
            f"  {episode.fault} {episode.dose:g} on {episode.host}, steps {episode.first} to "
            f"{episode.last}, {episode.step_ratio:.2f}x: who {who}, cause {cause}"
        )
        for text in episode.found:
            print(f"    {text}")
    for text in job.false:
        print(f"  FALSE {text}")
    for text in job.job_level:
        print(f"  job   {text}", flush=True)


def run(options: argparse.Namespace) -> None:
    """Jobs with faults, then healthy ones, until there are enough."""

    def work() -> bool:
        jobs = read(options.results)
        with_faults = [job for job in jobs if job.episodes]
        if sum(len(job.episodes) for job in with_faults) < options.episodes:
            faults = next(islice(drawn(options.seed, options.fault), len(with_faults), None))
        elif sum(job.healthy_s for job in jobs if not job.episodes) < 60 * options.healthy:
            faults = []
        else:
            return False
        print_job(one_job(options, faults))
        return True

    repeat(work, math.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--results", type=Path, help="JSON lines to append to, and to go on from")
    add("--episodes", type=int, default=36, help="faults altogether (%(default)s)")
    add("--healthy", type=float, default=30.0, help="minutes of jobs without faults (%(default)s)")
    add("--seed", type=int, default=random.randrange(10**6), help="(another one each time)")
    add("--fault", nargs="+", choices=KINDS, default=list(KINDS))
    add("--keep", type=Path, help="folder for the runs")
    add("--again", type=Path, metavar="FOLDER", help="judge the runs kept there again")
    add("--report", type=Path, metavar="FILE", help="print the tables of these results")
    add("--write", type=Path, metavar="PAGE", help="... into this page")
    options = parser.parse_args()
    if options.report is None:
        if options.results is None:
            parser.error("give --results FILE to append to, or --report FILE to print")
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
        (again if options.again else run)(options)
    jobs = read(options.report or options.results)
    text = report(jobs)
    print(text)
    if options.write:
        write_part(options.write, MARK, "<!-- end -->", text)


if __name__ == "__main__":
    main()

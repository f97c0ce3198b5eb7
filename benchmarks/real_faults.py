"""Faults planted in the real 8-rank job, followed live: found, named rightly, and how soon.

python benchmarks/real_faults.py [--fault late-rank] [--episodes 10] [--burners 1] [--seed 7]

The job of `rankscope demo` (TP 2 x PP 2 x DP 2, gloo, on this machine's cores) trains; faults are
switched on for a while and off again, loud, quiet and masked ones in a random order, on one rank of
each pipeline stage per job. The server's own follower and diagnosis watch it. An alert is the first
diagnosis that holds the right kind and the right ranks with steps of the episode; its delay counts
from the mark that the injector leaves when the fault begins.

step        how much longer steps are: median of the episode / median of the steps around without
right       episodes with an alert of the right kind and ranks, and an interval of 95 % (Wilson)
steps       the median delay in steps of the episode
also named  what else was named in steps of an episode
false       findings in stretches without a fault; the first job has none at all

A dose is planned from the step time of the jobs before, and corrected by what theirs did.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import conditions
from planted import (
    DOSES,
    FAULTS,
    OFF_STEPS,
    Episode,
    Job,
    gain_of,
    planned,
    rows_of,
    score,
    scored_parts,
)

from app.analysis.diagnosis import diagnosis_of
from app.commands.demo_job import training_job
from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.run import Run

START_S, LAST_PASS_S = 120.0, 20.0
_LOOK_S = 0.2
_WARM_STEPS = 2
"""The first steps take longest in any job."""


def run_job(folder: Path, episodes: list[Episode], num_steps: int) -> Job:
    """Train with these faults, followed live; raises UserError where the job fails."""
    job = Job(episodes, load=os.getloadavg()[0])
    folder.mkdir(parents=True)
    given = argparse.Namespace(
        steps=num_steps, schedule="1f1b", fault=[episode.text for episode in episodes]
    )
    hub = Hub(folder.parent)
    try:
        with training_job(folder, given) as process:
            _come_up(folder, process)
            view = hub.run(folder.name, wait_s=START_S)
            _follow(hub, folder.name, process, job)
        if process.returncode:
            raise UserError(f"the job failed; see {folder / 'job.log'}")
        hub.catch_up(folder.name, LAST_PASS_S)
        _listen(hub, folder.name, job)
        score(job, _step_ms(view), _marks(view))
    finally:
        hub.close()
    return job


def _come_up(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while not (folder / "run.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise UserError(f"the job did not come up; see {folder / 'job.log'}")
        time.sleep(_LOOK_S)


def _follow(hub: Hub, name: str, process: subprocess.Popen[bytes], job: Job) -> None:
    """Diagnose whenever new data arrives, as the server does for a page that is open."""
    news = threading.Event()
    stop = hub.listen(lambda _name, _version: news.set())
    while process.poll() is None:
        if news.wait(_LOOK_S):
            news.clear()
            _listen(hub, name, job)
    stop()


def _listen(hub: Hub, name: str, job: Job) -> None:
    diagnosis = diagnosis_of(hub, name)
    job.reported.append((time.time_ns(), scored_parts(diagnosis)))


def _step_ms(view: Run) -> dict[int, float]:
    rows = view.ask("steps").to_pylist()
    known = [row for row in rows if row["step_ms"] and row["step"] >= _WARM_STEPS]
    return {row["step"]: row["step_ms"] for row in known}


def _marks(view: Run) -> dict[int, int]:
    rows = view.ask("marks").to_pylist()
    return {row["step"]: row["ts_ns"] for row in rows if row["kind"] == "fault"}


@contextmanager
def burners(number: int) -> Iterator[None]:
    """This many processes that compute all the time: other work on this machine."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_burn, daemon=True) for _ in range(number)]
    try:
        for process in started:
            process.start()
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def _burn() -> None:
    while os.getppid() != 1:
        sum(range(100_000))


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """A healthy job, then jobs with faults until there are enough episodes of each dose."""
    jobs: list[Job] = []
    begun = time.strftime("%H%M%S")
    with tempfile.TemporaryDirectory() as scratch, burners(options.burners):
        runs = options.keep or Path(scratch)

        def add(name: str, episodes: list[Episode], num_steps: int) -> None:
            jobs.append(run_job(runs / f"{name}-{begun}-{len(jobs)}", episodes, num_steps))
            if not options.json:
                print_job(jobs[-1])

        add("healthy", [], options.healthy_steps)
        for fault in options.fault:
            doses = [dose for dose in options.dose for _ in range(options.episodes)]
            random.Random(f"{options.seed} {fault}").shuffle(doses)
            for begin in range(0, len(doses), options.per_job):
                step_ms = statistics.median(job.step_ms for job in jobs[-3:])
                part, seed = doses[begin : begin + options.per_job], options.seed + len(jobs)
                gain = gain_of(fault, [episode for job in jobs for episode in job.episodes])
                episodes = planned(fault, part, step_ms, gain, seed)
                add(fault, episodes, episodes[-1].last + OFF_STEPS)
    return summary(jobs, options)


def summary(jobs: Sequence[Job], options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is printed."""
    healthy = jobs[0]
    return {
        "conditions": conditions(
            ranks=8,
            burners=options.burners,
            seed=options.seed,
            loads=[round(job.load, 1) for job in jobs],
        ),
        "step_ms": [round(job.step_ms) for job in jobs],
        "healthy": {
            "steps": healthy.num_steps,
            "hours": round(healthy.hours, 3),
            "false": healthy.false,
        },
        "rank_hours_without_fault": round(8 * sum(job.quiet_hours for job in jobs), 2),
        "false": [what for job in jobs for what in job.false],
        "rows": rows_of([episode for job in jobs for episode in job.episodes]),
    }


def print_job(job: Job) -> None:
    """A line for the job and for each of its episodes, while the others go on."""
    print(
        f"job: {job.num_steps} steps, {job.step_ms:.0f} ms without a fault, load {job.load:.1f} to "
        f"{os.getloadavg()[0]:.1f}, false alarms: {', '.join(job.false) or 'none'}",
        flush=True,
    )
    for e in job.episodes:
        found = "NOT FOUND" if e.delay_s is None else f"after {e.delay_s:.1f} s, step {e.onset}"
        also = f"; also {', '.join(sorted(e.also))}" if e.also else ""
        print(f"  {e.dose:6} {e.text:48} step {e.step_ratio:.2f}x  {found}{also}", flush=True)


def show(result: dict[str, Any]) -> None:
    """The table for people."""
    print(", ".join(f"{key} {value}" for key, value in result["conditions"].items()))
    for key in ("step_ms", "healthy", "rank_hours_without_fault", "false"):
        print(f"{key}: {result[key]}")
    names = (
        "fault",
        "dose",
        "step",
        "right",
        "in 15 s",
        "p50 s",
        "p95 s",
        "steps",
        "onset off by",
        "also named",
    )
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for row in result["rows"]:
        low, high = (f"{100 * share:.0f}" for share in row["right_95"])
        print(
            f"| {row['fault']} | {row['dose']} | {row['step']:.2f}x "
            f"| {row['right']} of {row['episodes']} ({low}-{high} %) | {row['in_15_s']} "
            f"| {row['delay_p50_s']} | {row['delay_p95_s']} | {row['delay_steps']} "
            f"| {row['onset_steps']} "
            f"| {', '.join(row['also']) or '-'} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--fault", action="append", choices=FAULTS, help="only this one; may be repeated")
    add("--dose", action="append", choices=tuple(DOSES), help="only this one; may be repeated")
    add("--episodes", type=int, default=10, help="of each fault and dose (%(default)s)")
    add("--per-job", type=int, default=6, help="episodes in one job (%(default)s)")
    add("--healthy-steps", type=int, default=60, help="of the job without faults (%(default)s)")
    add("--burners", type=int, default=0, help="other processes that compute (%(default)s)")
    add("--seed", type=int, help="default: another one each time")
    add("--keep", type=Path, help="keep the runs in this folder")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    options.fault = options.fault or list(FAULTS)
    options.dose = options.dose or list(DOSES)
    options.seed = random.randrange(10**6) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # ends the job
    try:
        result = measured(options)
    except UserError as error:
        sys.exit(str(error))
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)


if __name__ == "__main__":
    main()

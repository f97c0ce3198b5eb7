"""Faults planted in real jobs, followed live: found, named rightly, and how soon.

python benchmarks/real_faults.py --results FILE [--minutes 60] [--keep FOLDER]   jobs with faults
python benchmarks/real_faults.py --results FILE --healthy 120                    healthy jobs
python benchmarks/real_faults.py --again FOLDER --results FILE    kept runs, the rules of today
python benchmarks/real_faults.py --report FILE [--write docs/accuracy-real-jobs.md]   the tables

Small GPTs train on this machine's cores (gloo): TP 2 x PP 2 x DP 2, FSDP2 over 8 ranks, DDP over 4;
alone, or next to a process that computes in bursts of random length and share. Which job gets which
kinds and doses is drawn with a seed. Faults are switched on for a while and off again; the server's
own follower and diagnosis watch. An alert is the first diagnosis that is right about an episode
(benchmarks/real/score.py); its delay counts from the mark that the fault leaves when it begins.

Every finished job is appended to the results; started again, it goes on with the next one. A dose
is planned from the step time of the jobs before, and corrected by what theirs did.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.page_part import write_part
from benchmarks.real.again import diagnosed_again, runs_below
from benchmarks.real.kinds import DOSES, KINDS, LAYOUTS
from benchmarks.real.plan import OFF_STEPS, Crossing, Episode, crossings, expected_step_ms, planned
from benchmarks.real.records import TRUTH, append, read
from benchmarks.real.report import lines_of
from benchmarks.real.score import Job, text_of
from benchmarks.real.train import noisy_neighbour, run_job
from ingest.errors import UserError

FIRST_STEPS = 60
"""Of the healthy job that tells how long steps take, before the first faults of its sort."""
HEALTHY_S = 180.0
"""A healthy job takes about this long."""
MOST_FAILED = 3
BEGIN, END = "<!-- real_faults.py writes from here -->", "<!-- real_faults.py writes to here -->"


@dataclass
class Campaign:
    """Runs jobs and appends what came of them."""

    results: Path
    keep: Path | None
    seed: int

    def run(self, crossing: Crossing, number: int | None, num_steps: int = 0) -> dict[str, Any]:
        """One job; `number`: of the crossing, None for a healthy one of `num_steps`."""
        known, name = read(self.results), time.strftime("%Y%m%d-%H%M%S")
        episodes: list[Episode] = []
        if number is not None:
            step_ms = expected_step_ms(known.jobs, crossing.layout, crossing.neighbour)
            history = known.history(crossing.layout)
            episodes = planned(crossing, step_ms or 0.0, history, f"{self.seed} {number}")
            num_steps = episodes[-1].last + OFF_STEPS
        loads = [os.getloadavg()[0]]
        # whatever a job leaves behind may write its last file while the folder is removed
        passing = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with passing as scratch, noisy_neighbour(crossing.neighbour, name):
            kept = self.keep / name if self.keep else None
            job = run_job(Path(scratch) / "runs" / name, crossing.layout, episodes, num_steps, kept)
        loads.append(os.getloadavg()[0])
        row = {"id": name, "number": number, "seed": self.seed}
        row |= {"loads": [round(load, 1) for load in loads]}
        row |= {"layout": crossing.layout, "neighbour": crossing.neighbour} | job_row(job)
        append(self.results, row, episodes)
        if kept is not None:
            append(kept / TRUTH, row, episodes)
        print_job(row, episodes)
        return row


def job_row(job: Job) -> dict[str, Any]:
    """What a job's line in the results has besides what it was to be."""
    return {
        "step_ms": round(job.step_ms, 2),
        "num_steps": job.num_steps,
        "hours": round(job.hours, 5),
        "healthy_hours": round(job.healthy_hours, 5),
        "false": job.false,
    }


def with_faults(campaign: Campaign, options: argparse.Namespace) -> None:
    """Jobs with faults until the time is over or there are enough."""
    drawn = crossings(
        campaign.seed,
        options.fault or tuple(KINDS),
        options.dose or tuple(DOSES),
        options.layout or tuple(LAYOUTS),
        neighbours_of(options),
        options.per_job,
    )
    done = read(campaign.results).num_crossings
    todo = enumerate(itertools.islice(drawn, done, None), start=done)

    def work() -> bool:
        known = read(campaign.results)
        if options.episodes is not None and len(known.episodes) >= options.episodes:
            return False
        number, crossing = next(todo)
        if expected_step_ms(known.jobs, crossing.layout, crossing.neighbour) is None:
            campaign.run(Crossing(crossing.layout, crossing.neighbour, ()), None, FIRST_STEPS)
        campaign.run(crossing, number)
        return True

    repeat(work, options.minutes)


def healthy(campaign: Campaign, options: argparse.Namespace) -> None:
    """Healthy jobs of each sort in turn, for --healthy minutes."""
    sorts = [
        Crossing(layout, neighbour, ())
        for layout in options.layout or LAYOUTS
        for neighbour in neighbours_of(options)
    ]
    first = len(read(campaign.results).jobs) % len(sorts)
    turns = itertools.cycle(sorts[first:] + sorts[:first])

    def work() -> bool:
        sort = next(turns)
        step_ms = expected_step_ms(read(campaign.results).jobs, sort.layout, sort.neighbour)
        num_steps = FIRST_STEPS if step_ms is None else int(HEALTHY_S * 1e3 / step_ms)
        campaign.run(sort, None, num_steps)
        return True

    repeat(work, options.healthy)


def repeat(work: Any, minutes: float) -> None:
    """Call `work` until it returns False or the time is over; a job that fails is passed over, too
    many in a row are an error."""
    end_s, failed = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end_s:
        try:
            if not work():
                return
            failed = 0
        except UserError as error:
            failed += 1
            print(error, file=sys.stderr, flush=True)
            if failed >= MOST_FAILED:
                sys.exit(f"{failed} jobs in a row failed")


def again(options: argparse.Namespace) -> None:
    """Diagnose kept runs that the results do not have yet."""
    done = {job["id"] for job in read(options.results).jobs}
    for folder in runs_below(options.again):
        if folder.name not in done:
            job, row = diagnosed_again(folder, options.every)
            row |= job_row(job)
            append(options.results, row, job.episodes)
            print_job(row, job.episodes)


def neighbours_of(options: argparse.Namespace) -> tuple[bool, ...]:
    """Without and with a neighbour, or the one that was asked for."""
    return {"no": (False,), "yes": (True,), "both": (False, True)}[options.neighbour]


def print_job(job: dict[str, Any], episodes: list[Episode]) -> None:
    """A line for the job and for each of its episodes, while the others go on."""
    where = f"{job['layout']}{' next to a neighbour' if job['neighbour'] else ''}"
    false = ", ".join(map(text_of, job["false"])) or "none"
    print(
        f"{job['id']} {where}: {job['num_steps']} steps, {job['step_ms']:.0f} ms without a fault, "
        f"load {job['loads'][0]} to {job['loads'][-1]}, findings without a fault: {false}",
        flush=True,
    )
    for e in episodes:
        found = "NOT FOUND" if e.delay_s is None else f"after {e.delay_s:.1f} s, step {e.onset}"
        also = [*e.wrong, *e.other_kind, *e.job_level]
        also_text = f"; also {', '.join(also)}" if also else ""
        text = " ".join(e.texts)
        print(
            f"  {e.dose:6} {e.fault:15} {text} {e.step_ratio:.2f}x  {found}{also_text}", flush=True
        )


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--results", type=Path, help="JSON lines to append to, and to go on from")
    add("--minutes", type=float, default=60.0, help="start no job after so long (%(default)s)")
    add("--episodes", type=int, help="end when the results have as many")
    add("--healthy", type=float, metavar="MINUTES", help="healthy jobs for so long, no faults")
    add("--again", type=Path, metavar="FOLDER", help="diagnose the runs kept there again")
    add("--every", type=int, default=1, metavar="N", help="of --again: at one step of so many")
    add("--report", type=Path, metavar="FILE", help="print the tables of these results")
    add("--write", type=Path, metavar="PAGE", help="put the tables into this page, too")
    add("--keep", type=Path, help="keep the runs in this folder, for --again")
    add("--fault", action="append", choices=KINDS, help="only this one; may be repeated")
    add("--dose", action="append", choices=tuple(DOSES), help="only this one; may be repeated")
    add("--layout", action="append", choices=tuple(LAYOUTS), help="only this; may be repeated")
    add("--neighbour", choices=("no", "yes", "both"), default="both", help="(%(default)s)")
    add("--per-job", type=int, default=4, help="episodes in one job (%(default)s)")
    add("--seed", type=int, help="default: that of the results, else another one each time")
    options = parser.parse_args(arguments)
    if options.report is None and options.results is None:
        parser.error("give --results FILE to append to, or --report FILE to print")
    return options


def main() -> None:
    options = parsed()
    if options.report is not None:
        results = read(options.report)
        if not results.episodes:
            sys.exit(f"{options.report} has no finished job with a fault: begin with --results")
        text = "\n".join(lines_of(results))
        print(text)
        if options.write is not None:
            write_part(options.write, BEGIN, END, text)
        return
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # ends the job
    if options.again is not None:
        again(options)
        return
    seeds = [job["seed"] for job in read(options.results).jobs]
    drawn = seeds[-1] if seeds else random.randrange(10**6)
    seed = drawn if options.seed is None else options.seed
    campaign = Campaign(options.results, options.keep, seed)
    if options.healthy is not None:
        healthy(campaign, options)
    else:
        with_faults(campaign, options)


if __name__ == "__main__":
    main()

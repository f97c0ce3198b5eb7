"""Real jobs that get stuck in known ways: what is reported of them, and how soon.

python -m benchmarks.stuck [--rounds 3] [--ranks 4 8] [--only CASE ..] [--at-once 2] [--slow-s 25]
    [--every-s 0.5] [--library] [--dumps] [--kill-apart-s 0] [--keep FOLDER] [--results FILE]
python -m benchmarks.stuck --report FILE [--write docs/accuracy-stuck.md]

Each case is a job of 4 or 8 ranks over gloo (job.py) that a server of its own follows, asked every
EVERY_S over HTTP; with --library its run folder is opened instead, as by `rankscope diagnose`. With
--dumps the ranks that still can also dump their Flight Recorder (dumps.py). Results are appended
to a file, so that a campaign may have several parts; outcome.py says what they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from benchmarks.page_part import write_part
from benchmarks.stuck.cases import CASES, CULPRITS
from benchmarks.stuck.outcome import Outcome
from benchmarks.stuck.report import HEAD, report, row
from benchmarks.stuck.watch import How, watch

MARK = "<!-- make bench-stuck replaces what follows -->"


def campaign(
    jobs: list[tuple[str, int]], at_once: int, how: How, keep: Path | None
) -> Iterator[Outcome]:
    """All cases, some at the same time. Folders of jobs that were not right stay."""
    scratch = keep or Path(tempfile.mkdtemp(prefix="rankscope-stuck-"))

    def one(number: int, job: tuple[str, int]) -> Outcome:
        folder = scratch / f"{number}-{job[0]}"
        folder.mkdir(parents=True)
        outcome = watch(*job, folder, how)
        if keep is None and outcome.is_right and (outcome.after or outcome.is_control):
            shutil.rmtree(folder, ignore_errors=True)
        elif keep is None:
            print(f"kept for a look: {folder}", flush=True)
        return outcome

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(one, range(len(jobs)), jobs)
    with suppress(OSError):
        scratch.rmdir()  # where nothing was kept


def run(arguments: argparse.Namespace) -> None:
    """Print a line per job as it ends, then the report."""
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {arguments.at_once} at once")
    print(f"{HEAD}\n|{'---|' * 9}")
    how = How(
        arguments.slow_s,
        arguments.every_s,
        arguments.library,
        arguments.dumps,
        arguments.kill_apart_s,
    )
    jobs = [(case, num_ranks) for case in arguments.only for num_ranks in arguments.ranks]
    outcomes = []
    for outcome in campaign(jobs * arguments.rounds, arguments.at_once, how, arguments.keep):
        outcomes.append(outcome)
        print(row(outcome), flush=True)
        if arguments.results is not None:
            with arguments.results.open("a") as results:
                results.write(outcome.to_line() + "\n")
    print(f"\n{report(outcomes)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, nargs="*", choices=CULPRITS, default=list(CULPRITS))
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--slow-s", type=float, default=25.0, help="how long slow jobs are watched")
    parser.add_argument("--every-s", type=float, default=0.5, help="between two looks at a job")
    parser.add_argument("--library", action="store_true", help="open the run folder, no server")
    parser.add_argument("--dumps", action="store_true", help="compare with torch's fr_trace")
    parser.add_argument(
        "--kill-apart-s", type=float, default=0.0, help="in the end, from one rank to the next"
    )
    parser.add_argument("--keep", type=Path, help="new folder that keeps all run folders and logs")
    parser.add_argument("--results", type=Path, help="file of results, appended to")
    parser.add_argument("--report", type=Path, metavar="FILE", help="only print a file of results")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="write the report into this page"
    )
    arguments = parser.parse_args()
    if arguments.report is None:
        return run(arguments)
    text = report([Outcome.from_line(line) for line in arguments.report.read_text().splitlines()])
    if arguments.write is None:
        return print(text)
    write_part(arguments.write, MARK, "<!-- end -->", text)


if __name__ == "__main__":
    main()

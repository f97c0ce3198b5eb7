"""How good the diagnosis is, on jobs with planted faults whose truth is known.

python -m benchmarks.accuracy [--seed N] [--jobs 2] [--per-dose 10] [--healthy 100] [--kinds A,B]

Fresh seeds each time (printed; --seed repeats). One job again, its run kept to look at:
python -m benchmarks.accuracy --seed N --case native-slow_worker-loud-3 --keep FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy import tables
from benchmarks.accuracy.cases import NATIVE, TRACE, Case, case_named, cases
from benchmarks.accuracy.judge import Outcome, judge
from benchmarks.accuracy.rivals.compared import chosen as chosen_for_others
from benchmarks.accuracy.rivals.compared import compared


def main() -> None:
    arguments = _arguments()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    if arguments.case:
        _look_at(case_named(arguments.case, seed), arguments.keep)
        return
    kinds = arguments.kinds.split(",") if arguments.kinds else []
    schemas = [arguments.schema] if arguments.schema else [NATIVE, TRACE]
    chosen = list(cases(seed, arguments.per_dose, arguments.healthy, kinds, schemas))
    begun_s = time.perf_counter()
    outcomes = _judged(chosen, arguments.jobs)
    _report(seed, outcomes, time.perf_counter() - begun_s)
    if arguments.rivals:
        lines = compared(chosen_for_others(outcomes, arguments.rivals))
        print("### Other tools: who is named, loud and quiet\n", *lines, "", sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="repeat a run of the benchmark (default: a new one)")
    add("--jobs", type=int, default=2, help="processes (%(default)s)")
    add("--per-dose", type=int, default=10, help="jobs of each kind and dose (%(default)s)")
    add("--healthy", type=int, default=100, help="healthy jobs (%(default)s)")
    add("--kinds", help="only these, separated by commas; healthy is one of them")
    add("--rivals", type=int, default=3, help="jobs of each kind for other tools (%(default)s)")
    add("--schema", choices=(NATIVE, TRACE), help="our tables or StragglerAnalysis (both)")
    add("--case", help="one job again, by its name")
    add("--keep", type=Path, help="with --case: write its run below this new folder")
    return parser.parse_args()


def _judged(chosen: Sequence[Case], num_processes: int) -> list[Outcome]:
    """All outcomes in the order of the cases."""
    outcomes = []
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        for outcome in pool.imap(judge, chosen, chunksize=1):
            outcomes.append(outcome)
            if len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {len(chosen)} jobs", file=sys.stderr, flush=True)
    return outcomes


def _report(seed: int, outcomes: Sequence[Outcome], took_s: float) -> None:
    num_steps = sum(o.rank_steps for o in outcomes)
    print(f"seed {seed}, {len(outcomes)} jobs, {num_steps:,} rank-steps, {took_s:.0f} s\n")
    native = [o for o in outcomes if o.case.schema == NATIVE]
    traces = [o for o in outcomes if o.case.schema == TRACE]
    for title, lines in (
        ("Our tables, loud and quiet", tables.by_kind(native, tables.AUDIBLE)),
        ("Our tables, masked", tables.by_kind(native, ("masked",))),
        ("StragglerAnalysis schema, loud and quiet", tables.by_kind(traces, tables.AUDIBLE)),
        ("StragglerAnalysis schema, masked", tables.by_kind(traces, ("masked",))),
        (
            "Published what-if rules, same traces, loud and quiet",
            tables.by_kind(traces, tables.AUDIBLE, "rules"),
        ),
        ("Healthy, our tables", tables.healthy(native)),
        ("Healthy, StragglerAnalysis schema", tables.healthy(traces)),
        ("Error of S", tables.slowdown_errors(outcomes)),
        ("Not identifiable, by the generator's own account", tables.excluded(outcomes)),
        ("Mistakes", ["```", *tables.mistakes(outcomes), "```"]),
    ):
        print(f"### {title}\n", *lines, "", sep="\n")


def _look_at(case: Case, keep: Path | None) -> None:
    outcome = judge(case)
    print(f"{case.name} of seed {case.seed}: {outcome.shape}")
    print(*(f"planted  {label}" for label in outcome.labels), sep="\n")
    said = [tables.said(finding) for finding in outcome.findings]
    print(*(f"said     {one}" for one in said or ["nothing"]), sep="\n")
    print(*tables.mistakes([outcome]), sep="\n")
    if keep is not None:
        keep.mkdir(parents=True)
        run, _ = case.drawn().write(keep)
        print(f"look with: rankscope diagnose {run}")


if __name__ == "__main__":
    main()

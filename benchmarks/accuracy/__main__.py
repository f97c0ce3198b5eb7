"""How good the diagnosis is, on jobs with planted faults whose truth is known.

python -m benchmarks.accuracy [--seed N] [--jobs 2] [--per-dose 6] [--healthy 120] [--kinds A,B]

Fresh seeds each time (printed; --seed repeats). One job again, its run kept to look at:
python -m benchmarks.accuracy --seed N --case native-slow_worker-loud-3 --keep FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accuracy import draw_no_bars, tables
from benchmarks.accuracy.cases import NATIVE, TRACE, WORLDS, Case, case_named, cases
from benchmarks.accuracy.judge import Outcome, judge
from benchmarks.accuracy.rivals.compared import chosen as chosen_for_others
from benchmarks.accuracy.rivals.compared import compared
from sample_traces.generate.labelled.worlds import LOG_WORLDS

REPLACED = "<!-- make bench-accuracy replaces what follows -->"


def main() -> None:
    arguments = _arguments()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    if arguments.case:
        _look_at(case_named(arguments.case, seed), arguments.keep)
        return
    kinds = arguments.kinds.split(",") if arguments.kinds else []
    worlds = arguments.worlds.split(",")
    chosen = cases(seed, arguments.per_dose, arguments.healthy, kinds, worlds)
    begun_s = time.perf_counter()
    outcomes = _judged(chosen, arguments.jobs, arguments.minutes)
    took_s = time.perf_counter() - begun_s
    head = f"Seed {seed}: {len(outcomes)} of {len(chosen)} jobs, {took_s:.0f} s."
    report = "\n".join([head, "", *_report(outcomes, arguments.rivals)])
    print(report)
    print("## Mistakes\n", *tables.mistakes(outcomes), sep="\n")
    if arguments.write is not None:
        text = arguments.write.read_text(encoding="utf-8")
        kept = text[: text.index(REPLACED) + len(REPLACED)]
        arguments.write.write_text(f"{kept}\n\n{report}\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="repeat a run of the benchmark (default: a new one)")
    add("--jobs", type=int, default=2, help="processes (%(default)s)")
    add("--per-dose", type=int, default=6, help="jobs of each kind and dose (%(default)s)")
    add("--healthy", type=int, default=120, help="healthy jobs (%(default)s)")
    add("--minutes", type=float, default=60.0, help="stop after so long (%(default)s)")
    add("--kinds", help="only these, separated by commas; healthy is one of them")
    add("--rivals", type=int, default=3, help="jobs of each kind for other tools (%(default)s)")
    add("--worlds", default=",".join(WORLDS), help="only these, separated by commas (%(default)s)")
    add("--write", type=Path, help="put the tables into this page, behind its mark")
    add("--case", help="one job again, by its name")
    add("--keep", type=Path, help="with --case: write its run below this new folder")
    return parser.parse_args()


def _judged(chosen: Sequence[Case], num_processes: int, minutes: float) -> list[Outcome]:
    """Outcomes in the order of the cases, as many as the time allows."""
    outcomes: list[Outcome] = []
    until_s = time.monotonic() + 60 * minutes
    with multiprocessing.get_context("spawn").Pool(num_processes, draw_no_bars) as pool:
        for outcome in pool.imap(judge, chosen, chunksize=1):
            outcomes.append(outcome)
            if len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {len(chosen)} jobs", file=sys.stderr, flush=True)
            if time.monotonic() > until_s:
                break
    return outcomes


def _report(outcomes: Sequence[Outcome], rivals: int) -> Iterator[str]:
    """All tables, in Markdown."""
    for world in LOG_WORLDS:
        chosen = [o for o in outcomes if o.case.world == world]
        if chosen:
            yield from (f"## {world}, loud and quiet", "", *tables.by_kind(chosen), "")
            yield from (f"## {world}, masked", "", *tables.by_kind(chosen, ("masked",)), "")
            yield from (f"## {world}, healthy", "", *tables.healthy(chosen), "")
    native = [o for o in outcomes if o.case.world == NATIVE]
    traces = [o for o in outcomes if o.case.world == TRACE]
    others = chosen_for_others(outcomes, rivals) if rivals else []
    for title, lines in (
        ("Tables of the hooks, loud and quiet", tables.by_kind(native, tables.AUDIBLE)),
        ("Tables of the hooks, masked", tables.by_kind(native, ("masked",))),
        ("StragglerAnalysis files, loud and quiet", tables.by_kind(traces, tables.AUDIBLE)),
        ("StragglerAnalysis files, masked", tables.by_kind(traces, ("masked",))),
        (
            "What `rankscope whatif` finds in these files, loud and quiet",
            tables.by_kind(traces, tables.AUDIBLE, "causes"),
        ),
        (
            "What the published what-if rules find in these files, loud and quiet",
            tables.by_kind(traces, tables.AUDIBLE, "rules"),
        ),
        ("Other tools: which ranks they name, loud and quiet", compared(others) if others else []),
        ("Healthy jobs, tables of the hooks", tables.healthy(native)),
        ("Healthy jobs, StragglerAnalysis files", tables.healthy(traces)),
        ("Error of S", tables.slowdown_errors(outcomes)),
        ("Not identifiable, according to the generator", tables.excluded(outcomes)),
    ):
        if lines:
            yield from (f"## {title}", "", *lines, "")


def _look_at(case: Case, keep: Path | None) -> None:
    outcome = judge(case)
    print(f"{case.name} of seed {case.seed}: {outcome.shape}")
    print(*(f"planted  {label}" for label in outcome.labels), sep="\n")
    reported = [tables.in_words(finding) for finding in outcome.findings]
    print(*(f"reported {text}" for text in reported or ["nothing"]), sep="\n")
    print(*tables.mistakes([outcome]), sep="\n")
    if keep is not None:
        keep.mkdir(parents=True)
        run, _ = case.drawn().write(keep)
        print(f"look with: rankscope diagnose {run}")


if __name__ == "__main__":
    main()

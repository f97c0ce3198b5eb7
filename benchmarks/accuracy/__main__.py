"""How good the diagnosis is, on jobs with planted faults whose truth is known.

python -m benchmarks.accuracy [--seed N] [--jobs 2] [--worlds A,B] [--per-dose 6] [--healthy 120]

Fresh seeds each time (printed; --seed repeats). --resume FILE appends each outcome to the file and
leaves out what it has. One job again, its run kept to look at:
python -m benchmarks.accuracy --seed N --case native-slow_worker-loud-3 --keep FOLDER
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.accuracy import calibration, draw_no_bars, labelled_traces, tables
from benchmarks.accuracy.cases import WORLDS, Case, case_named, cases, check_names
from benchmarks.accuracy.judge import Outcome, judge
from benchmarks.accuracy.outcomes import append, outcomes_in
from benchmarks.accuracy.recorded_noise import noise_folder
from benchmarks.accuracy.report import report
from benchmarks.accuracy.rivals.asked import Rival
from benchmarks.accuracy.rivals.named import check_answers, rivals_named

REPLACED = "<!-- make bench-accuracy replaces what follows -->"
PLOT = Path("img") / "calibration.svg"
"""Next to the page that is written."""
RIVAL = "another tool: a function from a job's folder to the ranks it blames; repeatable"
NVRX_AND_HTA = (
    "jobs of each kind for NVRx and HTA, which pip installs below .venv/rivals; 0: neither "
    "(%(default)s)"
)
ALL_WORLDS = ",".join(WORLDS)
_PER_NEWS = 50


def main(given: Sequence[str] | None = None) -> None:
    arguments = _arguments(given)
    if arguments.noise is not None and not arguments.noise.is_dir():
        raise SystemExit(f"{arguments.noise} is no folder")
    if arguments.keep is not None and arguments.keep.exists():
        raise SystemExit(f"{arguments.keep} exists already: --keep makes a new folder")
    if arguments.resume is not None and not arguments.resume.parent.is_dir():
        raise SystemExit(f"{arguments.resume.parent} is no folder")
    with _in_one_sentence():
        check_names(arguments.worlds, arguments.kinds)
        rivals = rivals_named(arguments.rival)
        known = list(outcomes_in(arguments.resume)) if arguments.resume else []
        seed = arguments.seed
        if seed is None:
            seed = known[0].case.seed if known else secrets.randbelow(2**31)
        known = [o for o in known if o.case.seed == seed]
        check_answers(known, arguments.rival)
    with noise_folder(arguments.noise, ",".join(arguments.worlds)) as noise:
        if arguments.case:
            with _in_one_sentence():
                case = case_named(arguments.case, seed, noise)
            _look_at(case, arguments.keep)
            return
        _run(arguments, seed, noise, known, rivals)


@contextlib.contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Options that do not fit end the benchmark without a traceback."""
    try:
        yield
    except ValueError as error:
        raise SystemExit(str(error)) from None


def _run(
    arguments: argparse.Namespace,
    seed: int,
    noise: str,
    known: list[Outcome],
    rivals: Mapping[str, Rival],
) -> None:
    wanted = (arguments.per_dose, arguments.healthy, arguments.kinds, arguments.worlds)
    with _in_one_sentence():
        chosen = cases(seed, *wanted, noise)
    if not chosen:
        raise SystemExit("these options leave no job; resampled worlds need --noise")
    done = {o.case.name: o for o in known}
    left = [case for case in chosen if case.name not in done]
    print(f"{len(left)} jobs, of 1 to 3 s each on one core", file=sys.stderr, flush=True)
    begun_s, made = time.perf_counter(), 0
    for outcome in _judged(left, arguments, rivals):
        done[outcome.case.name] = outcome
        made += 1
        if arguments.resume:
            append(outcome, arguments.resume)
    took_s = time.perf_counter() - begun_s
    outcomes = [done[case.name] for case in chosen if case.name in done]
    busy_s = sum(o.took_s for o in outcomes)
    text = (
        f"Seed {seed}: {len(outcomes)} of {len(chosen)} jobs; this call made {made} of them in "
        f"{took_s:.0f} s with {arguments.jobs} processes; "
        f"{busy_s / max(len(outcomes), 1):.1f} s per job and process."
    )
    folders = [folder for folder in labelled_traces.FOLDERS if folder.is_dir()]
    labelled: list[str] = []
    if arguments.write and folders:
        labelled = labelled_traces.as_table(labelled_traces.judged_in(folders))
    sections = report(outcomes, arguments.rivals, PLOT.as_posix(), labelled)
    text = "\n".join([text, "", *sections])
    print(text)
    if arguments.write is not None:
        _write(text, outcomes, arguments.write)


def _write(text: str, outcomes: Sequence[Outcome], page: Path) -> None:
    """Put the report into a page, and the plot next to it."""
    before = page.read_text(encoding="utf-8")
    kept = before[: before.index(REPLACED) + len(REPLACED)]
    page.write_text(f"{kept}\n\n{text}\n", encoding="utf-8")
    drawn = calibration.plot(calibration.calibrations(outcomes))
    (page.parent / PLOT).parent.mkdir(exist_ok=True)
    (page.parent / PLOT).write_text(drawn, encoding="utf-8")


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="repeat a run of the benchmark (default: a new one)")
    add("--jobs", type=int, default=2, help="processes (%(default)s)")
    add("--per-dose", type=int, default=6, help="jobs of each kind and dose (%(default)s)")
    add("--healthy", type=int, default=120, help="healthy jobs (%(default)s)")
    add("--minutes", type=float, default=60.0, help="stop after so long (%(default)s)")
    add("--kinds", type=_names, default=[], help="only these, with commas; healthy is one of them")
    add("--rivals", type=int, default=3, help=NVRX_AND_HTA)
    add("--worlds", type=_names, default=WORLDS, help=f"only these, with commas ({ALL_WORLDS})")
    add("--rival", action="append", default=[], metavar="MODULE:FUNCTION", help=RIVAL)
    add("--noise", type=Path, help="folder of recorded noise (recorded_noise.py makes one)")
    add("--resume", type=Path, metavar="FILE", help="append outcomes to it; leave out those it has")
    add("--write", type=Path, help="put the tables into this page, behind its mark")
    add("--case", help="one job again, by its name")
    add("--keep", type=Path, help="with --case: write its run below this new folder")
    return parser.parse_args(given)


def _names(text: str) -> list[str]:
    return text.split(",")


def _judged(
    chosen: Sequence[Case], arguments: argparse.Namespace, rivals: Mapping[str, Rival]
) -> Iterator[Outcome]:
    """Outcomes in the order of the cases, as many as the time allows."""
    begun_s = time.monotonic()
    until_s = begun_s + 60 * arguments.minutes
    judging = partial(judge, rivals=rivals)
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, draw_no_bars) as pool:
        for number, outcome in enumerate(pool.imap(judging, chosen, chunksize=1), 1):
            yield outcome
            spent_s = time.monotonic() - begun_s
            if number % _PER_NEWS == 0:
                left = spent_s / number * (len(chosen) - number) / 60
                news = f"{number} of {len(chosen)} jobs, about {left:.0f} minutes left"
                print(news, file=sys.stderr, flush=True)
            if time.monotonic() > until_s:
                break


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

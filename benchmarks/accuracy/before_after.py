"""Two versions of rankscope on the same jobs: what each finds and names falsely, per world.

python -m benchmarks.accuracy.before_after BEFORE.jsonl AFTER.jsonl

Run `python -m benchmarks.accuracy --seed N --resume FILE` in a checkout of each version. Jobs that
only one of them has are left out; both are scored by the labels of AFTER.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.accuracy.cases import HEALTHY, WORLDS
from benchmarks.accuracy.intervals import clopper_pearson, wilson
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.outcomes import outcomes_in
from benchmarks.accuracy.score import score

Pair = tuple[Outcome, Outcome]
_COLUMNS = ("world", "jobs", "version", "found (95 %)", "located", "false names")
_COLUMNS += ("jobs with false names (95 %)", "untrue of the job")


def pairs(before: Iterable[Outcome], after: Iterable[Outcome]) -> list[Pair]:
    """The jobs that both have, in the order of `after`, with its labels."""
    known = {outcome.case: outcome for outcome in before}
    both = [(known[new.case], new) for new in after if new.case in known]
    return [(replace(old, labels=new.labels), new) for old, new in both]


def table(both: Sequence[Pair]) -> list[str]:
    """Two rows per world, and two of all."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for world in (*WORLDS, "**all**"):
        chosen = [pair for pair in both if pair[0].case.world == world or world == "**all**"]
        for at, version in enumerate(("before", "after")) if chosen else ():
            lines.append(_row(world, version, [pair[at] for pair in chosen]))
    return lines


def _row(world: str, version: str, outcomes: Sequence[Outcome]) -> str:
    healthy = sum(outcome.case.kind == HEALTHY for outcome in outcomes)
    scored = [score(outcome.labels, outcome.findings) for outcome in outcomes]
    matches = [match for one in scored for match in one.matches]
    found = sum(match.finding is not None for match in matches)
    named = [len(one.false) + len(one.innocents) for one in scored]
    low, high = (100 * share for share in wilson(found, len(matches)))
    low_job, high_job = (100 * s for s in clopper_pearson(sum(map(bool, named)), len(named)))
    cells = (
        world,
        f"{len(outcomes)} ({healthy} healthy)",
        version,
        f"{found} of {len(matches)} ({low:.0f}-{high:.0f} %)",
        sum(match.is_located for match in matches),
        sum(named),
        f"{sum(map(bool, named))} ({low_job:.1f}-{high_job:.1f} %)",
        sum(len(one.untrue) for one in scored),
    )
    return f"| {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args(arguments)
    for path in (given.before, given.after):
        if not path.is_file():
            raise SystemExit(f"there is no file {path}")
    both = pairs(outcomes_in(given.before), outcomes_in(given.after))
    if not both:
        raise SystemExit("the files have no job in common: were they made with the same seed?")
    print(*table(both), sep="\n")


if __name__ == "__main__":
    main()

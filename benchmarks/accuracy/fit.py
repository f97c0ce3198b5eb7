"""Where the borders of lateness come from: labelled runs of real accelerators.

python -m benchmarks.accuracy.fit [FOLDER ..]

Who comes late is named where it does so evenly and is last in most steps of an episode
(diagnosis/statistics/late_ranks.py: LEAST_EVEN, LEAST_LAST). Every episode of every rank of these
runs is a candidate; right are those of the labelled rank in the labelled steps. For each border of
evenness, the border of lastness lies in the middle between the candidates that are right and those
that are not; the pair with the widest gap is taken.

Then one fault after the other is left out, with its baselines: borders are fitted without it, and
its runs are diagnosed with them. No run is scored with borders that were fitted to it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.analysis.diagnosis import all_steps, tables_of
from app.analysis.imports import open_any
from benchmarks.accuracy.labelled_traces import FOLDERS, Arm, Verdict, arms_in, as_table, judged
from diagnosis.statistics import late_ranks
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_times import PhaseTimes, phase_times

EVENNESS = (0.1, 0.2, 0.3, 0.4, 0.5)
_REASONS = ("stretch", "rest")


@dataclass(frozen=True)
class Candidate:
    """One late episode of one rank; `is_right`: of the labelled rank, in the labelled steps."""

    arm: str
    even: float
    last: float
    is_right: bool


@dataclass(frozen=True)
class Borders:
    """What is named is at least this even and this often last. `gap`: between right and wrong."""

    even: float
    last: float
    gap: float


def candidates_of(arm: Arm) -> Iterator[Candidate]:
    """All late episodes of a run that are steady, and how even and how often last they are."""
    with open_any(arm.folder) as run:
        times = phase_times(tables_of(run, run.newest_attempt, all_steps(run)))
    for found in (
        late_ranks.candidates_of_one(times, "data", NOISE_MADS),
        late_ranks.candidates(times, _REASONS),
    ):
        for late in found.lates:
            if late.steady >= late_ranks.STEADY_SHARE:
                others_RS = np.delete(
                    np.nan_to_num(found.excess_RS[:, late.span]), late.row, axis=0
                )
                own_S = found.excess_RS[late.row, late.span]
                last = float((own_S >= others_RS.max(axis=0)).mean())
                yield Candidate(arm.name, late.even, last, _is_right(arm, times, late))


def _is_right(arm: Arm, times: PhaseTimes, late: late_ranks.Late) -> bool:
    if arm.rank is None or arm.steps is None:
        return False
    first, last = (int(times.step_S[at]) for at in (late.episode.first, late.episode.last))
    is_it = int(times.ranks.rank_R[late.row]) == arm.rank
    return is_it and arm.steps[0] - 2 <= first and last <= arm.steps[1] + 2


def fitted(seen: Sequence[Candidate]) -> Borders:
    """The borders with the widest gap between what is right and what is not."""
    tried = []
    for even in EVENNESS:
        right = [c.last for c in seen if c.is_right and c.even >= even]
        wrong = [c.last for c in seen if not c.is_right and c.even >= even]
        lost = sum(c.is_right and c.even < even for c in seen)
        low, high = max(wrong, default=0.0), min(right, default=1.0)
        tried.append((-lost, high - low, -even, Borders(even, (low + high) / 2, high - low)))
    return max(tried, key=lambda each: each[:3])[3]


@contextmanager
def using(borders: Borders) -> Iterator[None]:
    """Diagnose with these borders."""
    before = late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST
    late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST = borders.even, borders.last
    try:
        yield
    finally:
        late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST = before


def fault_of(arm: Arm) -> str:
    """The case that an arm belongs to: its name without the dose and what was done."""
    return re.sub(r"-(loud|quiet|masked)?(-baseline|-injected)?$", "", _without_end(arm.name))


def _without_end(name: str) -> str:
    return name.removesuffix("-baseline").removesuffix("-injected")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=list(FOLDERS), metavar="FOLDER")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        arms = [arm for folder in given.folders for arm in arms_in(folder, Path(scratch))]
        seen = [candidate for arm in arms for candidate in candidates_of(arm)]
        right = sum(candidate.is_right for candidate in seen)
        print(f"{len(arms)} runs, {len(seen)} steady late episodes, {right} of them right")
        print(_in_words("all", fitted(seen)))
        verdicts = list(_left_out(arms, seen))
    print("", *as_table(verdicts), sep="\n")


def _left_out(arms: Sequence[Arm], seen: Sequence[Candidate]) -> Iterator[Verdict]:
    """Verdicts on the runs of each fault with borders fitted without it."""
    groups = defaultdict[str, list[Arm]](list)
    for arm in arms:
        groups[fault_of(arm)].append(arm)
    for fault, own in groups.items():
        names = {arm.name for arm in own}
        borders = fitted([candidate for candidate in seen if candidate.arm not in names])
        print(_in_words(f"without {fault}", borders))
        with using(borders):
            yield from (judged(arm) for arm in own)


def _in_words(which: str, borders: Borders) -> str:
    return (
        f"{which}: even at least {borders.even}, last at least {borders.last:.2f} "
        f"(gap {borders.gap:.2f})"
    )


if __name__ == "__main__":
    main()

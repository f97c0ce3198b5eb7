"""How often the finding first_error is right, on generated logs of failed jobs with known truth.

python -m benchmarks.first_cause [--seed N] [--per-kind 12] [--jobs 2] [--write PAGE]

Each job (sample_traces/logs) is written to files as its launcher lays them out, imported and
diagnosed as `rankscope diagnose LOGS` does. One job again, its files kept to look at:
python -m benchmarks.first_cause --seed N --case cuda_oom-3 --keep FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.analysis.diagnosis import diagnose_run
from app.analysis.imports import open_any
from benchmarks.accuracy.intervals import wilson
from diagnosis.findings import Finding
from ingest.imports.worker_command import HERE_VARIABLE
from sample_traces.logs.generate import KINDS, generate
from sample_traces.logs.truth import Truth

REPLACED = "<!-- make bench-first-cause replaces what follows -->"
WORDS = ("high", "medium", "low")
TARGETS = {"high": 0.97, "medium": 0.85, "low": 0.60}
_PER_NEWS = 50


@dataclass(frozen=True)
class Case:
    """One job: the number of its kind in a run of the benchmark with a seed."""

    kind: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        """As --case takes it."""
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True)
class Outcome:
    """What was found of one job. `reported`: None nothing."""

    case: Case
    launcher: str
    truth: Truth
    reported: Finding | None

    @property
    def is_line_right(self) -> bool:
        """It quotes a line that shows the cause."""
        if self.reported is None:
            return False
        shown = " ".join((self.reported.cause, *(e.sentence for e in self.reported.evidence)))
        return any(piece.lower() in shown.lower() for piece in self.truth.says)

    @property
    def names(self) -> tuple[set[int], set[str]]:
        """Ranks and hosts that it blames."""
        if self.reported is None:
            return set(), set()
        return {place.rank for place in self.reported.culprits}, set(self.reported.hosts)

    @property
    def names_wrongly(self) -> bool:
        """A rank or a host stands in it that is not at fault."""
        ranks, hosts = self.names
        return bool(ranks - set(self.truth.ranks) or hosts - set(self.truth.hosts))

    @property
    def is_right(self) -> bool:
        """Line and advice right, nobody named wrongly; or nothing, where the logs show nothing."""
        if self.truth.unknown:
            return self.reported is None
        return (
            self.reported is not None
            and self.is_line_right
            and self.reported.advice in self.truth.advice
            and not self.names_wrongly
        )

    @property
    def is_node_right(self) -> bool:
        """The one host that it names, by itself or by its ranks, is the one."""
        if self.reported is None:
            return False
        hosts = {*self.reported.hosts, *(place.host for place in self.reported.culprits)}
        return hosts == {self.truth.node}

    @property
    def is_rank_right(self) -> bool:
        """It names the one rank."""
        return self.names[0] == set(self.truth.ranks)


def judge(case: Case, folder: Path | None = None) -> Outcome:
    """Write, import and diagnose one job; its files stay in `folder` where one is given."""
    with tempfile.TemporaryDirectory() as held:
        place = folder or Path(held)
        job, truth = generate(place, case.kind, f"{case.seed} {case.number}")
        with open_any(place / "logs") as opened:
            found = diagnose_run(opened).findings
    reported = next((finding for finding in found if finding.kind == "first_error"), None)
    return Outcome(case, job.launcher, truth, reported)


Judgement = Callable[[Outcome], bool]


def _share(outcomes: Iterable[Outcome], is_hit: Judgement) -> str:
    """Hits of all with their interval, as a cell of a table."""
    judged = [is_hit(outcome) for outcome in outcomes]
    if not judged:
        return "-"
    low, high = wilson(sum(judged), len(judged))
    share = sum(judged) / len(judged)
    return f"{100 * share:.1f} % of {len(judged)} ({100 * low:.0f} to {100 * high:.0f})"


def f1(outcomes: Sequence[Outcome]) -> float:
    """Of right findings among those reported, and among the jobs whose logs show a cause."""
    right = sum(outcome.is_right and not outcome.truth.unknown for outcome in outcomes)
    reported = sum(outcome.reported is not None for outcome in outcomes)
    known = sum(not outcome.truth.unknown for outcome in outcomes)
    return 2 * right / max(reported + known, 1)


def _overall(outcomes: Sequence[Outcome]) -> list[str]:
    known = [o for o in outcomes if not o.truth.unknown]
    unknown = [o for o in outcomes if o.truth.unknown]
    of_node = [o for o in known if o.truth.node]
    of_rank = [o for o in known if len(o.truth.ranks) == 1]
    return [
        "| of all jobs | |",
        "|---|---|",
        f"| first cause, F1 | {f1(outcomes):.3f} |",
        f"| first cause right, where logs show one | {_share(known, lambda o: o.is_right)} |",
        f"| node, where one is at fault | {_share(of_node, lambda o: o.is_node_right)} |",
        f"| rank, where one is at fault | {_share(of_rank, lambda o: o.is_rank_right)} |",
        f"| somebody named wrongly | {_share(outcomes, lambda o: o.names_wrongly)} |",
        f"| nothing claimed, where they show nothing | {_share(unknown, lambda o: o.is_right)} |",
    ]


def _grouped(outcomes: Sequence[Outcome], title: str, key: Callable[[Outcome], str]) -> list[str]:
    lines = [f"| {title} | right | node | named wrongly |", "|---|---|---|---|"]
    for name in sorted({key(outcome) for outcome in outcomes}):
        mine = [outcome for outcome in outcomes if key(outcome) == name]
        at_node = [outcome for outcome in mine if outcome.truth.node]
        lines.append(
            f"| {name} | {_share(mine, lambda o: o.is_right)} | "
            f"{_share(at_node, lambda o: o.is_node_right)} | "
            f"{sum(o.names_wrongly for o in mine)} |"
        )
    return lines


def _words(outcomes: Sequence[Outcome]) -> list[str]:
    lines = ["| confidence | right | target |", "|---|---|---|"]
    for word in WORDS:
        mine = [o for o in outcomes if o.reported is not None and o.reported.confidence == word]
        share = _share(mine, lambda o: o.is_right)
        lines.append(f"| {word} | {share} | {100 * TARGETS[word]:.0f} % |")
    return lines


def report(outcomes: Sequence[Outcome]) -> str:
    """All tables, and what was missed."""
    missed = [_missed(outcome) for outcome in outcomes if not outcome.is_right]
    parts = (
        _overall(outcomes),
        _words(outcomes),
        _grouped(outcomes, "cause", lambda o: o.case.kind),
        _grouped(outcomes, "layout", lambda o: o.launcher),
        [f"Not right: {len(missed)}.", "", *missed] if missed else ["Nothing was missed."],
    )
    return "\n\n".join("\n".join(part) for part in parts)


def _missed(outcome: Outcome) -> str:
    wanted = "nothing" if outcome.truth.unknown else f"{outcome.truth.says[0]!r}"
    found = outcome.reported
    got = f"{found.confidence}: {found.title} ({found.advice})" if found else "nothing"
    return f"- {outcome.case.name} ({outcome.launcher}): reported {got}; right were {wanted}"


def run(seed: int, per_kind: int, jobs: int, kinds: Sequence[str]) -> list[Outcome]:
    """Judge `per_kind` jobs of each kind in processes of their own, which read the files."""
    os.environ[HERE_VARIABLE] = "1"
    cases = [Case(kind, number, seed) for number in range(per_kind) for kind in kinds]
    outcomes = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for outcome in pool.imap(judge, cases, chunksize=1):
            outcomes.append(outcome)
            if len(outcomes) % _PER_NEWS == 0:
                print(f"{len(outcomes)} of {len(cases)} jobs", file=sys.stderr, flush=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat a run (default: a new one)")
    parser.add_argument("--per-kind", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--write", type=Path, help="put the tables into this page, behind its mark")
    parser.add_argument("--case", help="one job again, by its name")
    parser.add_argument("--keep", type=Path, help="with --case: keep its files in this new folder")
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    if given.case:
        kind, _, number = given.case.rpartition("-")
        if given.keep is not None:
            given.keep.mkdir(parents=True)
        outcome = judge(Case(kind, int(number), seed), given.keep)
        print(outcome.truth, outcome.reported, outcome.is_right, sep="\n")
        return
    outcomes = run(seed, given.per_kind, given.jobs, given.kinds)
    text = f"Seed {seed}: {len(outcomes)} jobs.\n\n{report(outcomes)}"
    print(text)
    if given.write is not None:
        before = given.write.read_text(encoding="utf-8")
        kept = before[: before.index(REPLACED) + len(REPLACED)]
        given.write.write_text(f"{kept}\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

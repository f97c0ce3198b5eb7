"""Tables of the benchmark, in Markdown, from the outcomes of all jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.accuracy.cases import HEALTHY, NATIVE, TRACE
from benchmarks.accuracy.intervals import of_f1, wilson
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.score import Scored, names_nobody, score
from benchmarks.accuracy.why_missed.groups import group_of
from sample_traces.generate.labelled.labels import Label

ONSET_STEPS = 2
FEWEST_HOURS = 100
"""With fewer rank-hours, a rate says nothing."""
AUDIBLE, MASKED = ("loud", "quiet", "any"), "masked"
DATA = {NATIVE: "hooks", TRACE: "StragglerAnalysis"}


@dataclass
class Tally:
    """Counts of one kind."""

    found: int = 0
    missed: int = 0
    false: int = 0
    located: int = 0
    onsets: list[int] = field(default_factory=list)

    @property
    def labels(self) -> int:
        """Identifiable labels."""
        return self.found + self.missed

    @property
    def precision(self) -> float:
        """Found / reported."""
        return _share(self.found, self.found + self.false)

    @property
    def recall(self) -> float:
        """Found / planted."""
        return _share(self.found, self.labels)

    @property
    def f1(self) -> float:
        """2 found / (planted + reported)."""
        return _share(2 * self.found, 2 * self.found + self.missed + self.false)

    @property
    def located_share(self) -> float:
        """Located / planted."""
        return _share(self.located, self.labels)

    @property
    def onset_share(self) -> float:
        """Within ONSET_STEPS / found."""
        return _share(sum(error <= ONSET_STEPS for error in self.onsets), len(self.onsets))

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.found + other.found,
            self.missed + other.missed,
            self.false + other.false,
            self.located + other.located,
            self.onsets + other.onsets,
        )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def tallies(scored: Iterable[Scored]) -> dict[str, Tally]:
    """By kind: of the label where something was planted, of the finding where nothing was."""
    by_kind: dict[str, Tally] = defaultdict(Tally)
    for one in scored:
        for match in one.matches:
            tally = by_kind[match.label.planted or match.label.kind]
            tally.found += match.finding is not None
            tally.missed += match.finding is None
            tally.located += match.is_located
            if match.onset_error is not None:
                tally.onsets.append(match.onset_error)
        for finding in (*one.false, *one.untrue):
            by_kind[finding["kind"]].false += 1
    return by_kind


def by_kind(
    outcomes: Sequence[Outcome], doses: Sequence[str] = AUDIBLE, whose: str = "findings"
) -> list[str]:
    """One row per kind, and the sum. `whose`: findings; causes or rules, which know no steps."""
    chosen = [o for o in outcomes if o.case.dose in doses and o.case.kind != HEALTHY]
    found = tallies(score(o.labels, getattr(o, whose)) for o in chosen)
    rows = [(kind, found[kind]) for kind in sorted(found)]
    rows.append(("**all**", sum(found.values(), Tally())))
    names = ["kind", "planted", "found", "false", "precision", "recall (95 %)"]
    names += ["F1 (95 %)", "located (95 %)"]
    names += ["onset <= 2 steps"] * (whose == "findings")
    head = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return head + [_row(name, tally, len(names)) for name, tally in rows]


def _row(name: str, tally: Tally, num_cells: int) -> str:
    counts = [name, tally.labels, tally.found, tally.false, _text(tally.precision)]
    recall = share_in_words(tally.found, tally.labels)
    located = share_in_words(tally.located, tally.labels)
    cells = [*counts, recall, f1_in_words(tally), located, _text(tally.onset_share)]
    return f"| {' | '.join(map(str, cells[:num_cells]))} |"


def share_in_words(part: int, whole: int) -> str:
    """A share with its interval of 95 %."""
    return _in_words(_share(part, whole), wilson(part, whole))


def f1_in_words(tally: Tally) -> str:
    """F1 with its interval of 95 %."""
    return _in_words(tally.f1, of_f1(tally.found, tally.missed + tally.false))


def _in_words(share: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return "-" if np.isnan(share) else f"{share:.3f} ({low:.2f}-{high:.2f})"


def _text(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.3f}"


def healthy(outcomes: Sequence[Outcome]) -> list[str]:
    """What is found in healthy jobs, true or not: the table per world tells them apart."""
    chosen = [o for o in outcomes if o.case.kind == HEALTHY]
    hours = sum(o.rank_hours for o in chosen)
    found = sum(len(o.findings) for o in chosen)
    steps = sum(o.rank_steps for o in chosen)
    rate = " (too few hours for a rate)"
    if hours >= FEWEST_HOURS:
        rate = f", {1000 * found / hours:.2f} per 1,000 rank-hours"
    return [
        f"{len(chosen)} healthy jobs, {hours:,.0f} rank-hours, {steps:,} rank-steps: "
        f"{found} findings, true or not{rate}."
    ]


def slowdown_errors(outcomes: Sequence[Outcome]) -> list[str]:
    """S of the what-if replay against S of the simulation, and against the whole slowdown."""
    errors: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for o in outcomes:
        if o.true_S and o.slowdown and o.whatif_S:
            both = (abs(o.whatif_S / o.true_S - 1), abs(o.whatif_S / o.slowdown - 1))
            for kind in (o.case.kind, "**all**"):
                errors[o.case.world, kind].append(both)
    head = ["| data | kind | jobs | S, median | S, p90 | slowdown, median | slowdown, p90 |"]
    rows = [
        f"| {DATA[world]} | {kind} | {len(found)} | {_percents(found)} |"
        for (world, kind), found in sorted(errors.items())
    ]
    return [*head, "|---" * 7 + "|", *rows]


def _percents(errors: list[tuple[float, float]]) -> str:
    quantiles = np.quantile(np.array(errors), (0.5, 0.9), axis=0).T.ravel()
    return " | ".join(f"{100 * error:.2f} %" for error in quantiles)


def excluded(outcomes: Sequence[Outcome]) -> list[str]:
    """Labels that are not identifiable from the data according to the generator."""
    labels = [label for o in outcomes for label in o.labels]
    out = [(label.kind, label.why_not) for label in labels if label.why_not]
    counts = {reason: out.count(reason) for reason in sorted(set(out))}
    lines = [f"- {kind}: {count} ({why})" for (kind, why), count in counts.items()]
    share = _share(len(out), len(labels))
    return [f"{len(out)} of {len(labels)} planted faults ({100 * share:.1f} %):", *lines]


def mistakes(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Every miss, wrong place and false alarm, with the name of its case."""
    for outcome in outcomes:
        name = f"{outcome.case.name:36} {outcome.shape:32}"
        if outcome.error:
            yield f"CRASH    {name} {outcome.error}"
            continue
        scored = score(outcome.labels, outcome.findings)
        for match in scored.matches:
            label, finding = match.label, match.finding
            planted = f"{label.planted or label.kind} {_where(label.ranks, label.stages)} "
            planted += _steps(label)
            if finding is None:
                yield f"MISSED   {name} {planted}: {_why_missed(outcome, label)}"
            elif not match.is_located:
                yield f"PLACE    {name} {planted} reported {in_words(finding)}"
            elif (match.onset_error or 0) > ONSET_STEPS:
                yield f"ONSET    {name} {planted} reported {in_words(finding)}"
        yield from (f"FALSE    {name} {in_words(finding)}" for finding in scored.false)
        yield from (f"UNTRUE   {name} {in_words(finding)}" for finding in scored.untrue)
        yield from (f"RIVAL    {name} {tool}: {why}" for tool, why in outcome.rival_errors.items())


def _why_missed(outcome: Outcome, label: Label) -> str:
    """What was reported instead, and why it was not this."""
    others = [f for f in outcome.findings if set(f["ranks"]) & set(label.ranks)]
    of_job = [f for f in outcome.findings if names_nobody(f)]
    instead = ""
    if others:
        instead = f"reported as {in_words(others[0])}. "
    elif of_job:
        instead = f"only {in_words(of_job[0])} was reported. "
    of_labels = zip(outcome.labels, outcome.whys, strict=False)  # none of jobs that crashed
    return instead + next((why for own, why in of_labels if own is label), "")


def reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """Missed faults by what their reason is about."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for outcome in outcomes:
        for match in score(outcome.labels, outcome.findings).matches:
            if match.finding is None and not outcome.error:
                group = group_of(_why_missed(outcome, match.label))
                counts[group][outcome.case.dose == MASKED] += 1
    rows = sorted(counts.items(), key=lambda row: -row[1].total())
    head = ["| missed because | loud and quiet | masked |", "|---|---|---|"]
    return [*head, *(f"| {group} | {num[False]} | {num[True]} |" for group, num in rows)]


def _where(ranks: Sequence[int], stages: Sequence[int]) -> str:
    shown = ",".join(map(str, ranks[:8])) + (",.." if len(ranks) > 8 else "")
    stage = f" stage {','.join(map(str, stages))}" if stages else ""
    return f"[{shown}]{stage}"


def _steps(label: object) -> str:
    return f"{label.first_step}..{label.last_step}"  # type: ignore[attr-defined]


def in_words(finding: dict[str, object]) -> str:
    """A finding in a few words."""
    where = _where(finding["ranks"], finding.get("stages", ()))  # type: ignore[arg-type]
    first, last = finding["steps"]  # type: ignore[misc]
    return f"{finding['kind']} {where} {first}..{last}"

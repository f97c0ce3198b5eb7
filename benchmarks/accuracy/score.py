"""Scores findings against labels: detected faults, their location and onset, and false findings.

A label is found if a finding of its kind covers some of its steps. It is located if that finding
names exactly its ranks; for a fault of a stage, the stage and no rank; for a fault of the whole
job, no rank or all. Further findings of the same kind and location are duplicates of the first. All
others are false, including those that name an innocent rank with the right kind. A finding about a
label that is not identifiable from the data is neither right nor wrong, unless it names only
innocent ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sample_traces.generate.labelled.labels import Label

Finding = dict[str, Any]


@dataclass(frozen=True)
class Match:
    """One label and the finding that matches it, None: missed."""

    label: Label
    finding: Finding | None

    @property
    def is_located(self) -> bool:
        """Whether the finding names the location exactly."""
        return self.finding is not None and names_place(self.finding, self.label)

    @property
    def onset_error(self) -> int | None:
        """Steps by which the finding begins too early or too late."""
        if self.finding is None:
            return None
        return abs(int(self.finding["steps"][0]) - self.label.first_step)


@dataclass
class Scored:
    """One job: its identifiable labels with their findings, and false findings."""

    matches: list[Match] = field(default_factory=list)
    false: list[Finding] = field(default_factory=list)


def names_place(finding: Finding, label: Label) -> bool:
    """Whether a finding means the ranks, the stage or the job that the label means."""
    ranks = tuple(sorted(finding["ranks"]))
    if label.hosts and not ranks:
        return tuple(finding.get("hosts", ())) == label.hosts
    if not label.ranks and not label.stages:
        return len(ranks) in (0, label.job_ranks)
    if ranks or label.ranks:
        return ranks == label.ranks
    return tuple(finding.get("stages", ())) == label.stages


def _meets(finding: Finding, label: Label) -> bool:
    first, last = finding["steps"]
    return bool(first <= label.last_step and label.first_step <= last)


def score(labels: Sequence[Label], findings: Iterable[Finding]) -> Scored:
    """Match the findings of one job with its labels, those with the exact location first."""
    left, scored = list(findings), Scored()
    fitting: dict[int, Finding] = {}
    for exact in (True, False):
        for index, label in enumerate(labels):
            fits = [f for f in left if _matches(f, label, exact)]
            if index not in fitting and fits:
                fitting[index] = min(fits, key=lambda f: abs(f["steps"][0] - label.first_step))
                left.remove(fitting[index])
    scored.matches = [
        Match(label, fitting.get(index))
        for index, label in enumerate(labels)
        if label.is_identifiable
    ]
    scored.false = [f for f in left if not any(_is_excused(f, label) for label in labels)]
    return scored


def _matches(finding: Finding, label: Label, exact: bool) -> bool:
    same = bool(finding["kind"] == label.kind) and _meets(finding, label)
    return same and (names_place(finding, label) or not exact)


def _is_excused(finding: Finding, label: Label) -> bool:
    """Whether it is a duplicate, or about a label that is not identifiable."""
    if not label.is_identifiable:
        return _spares_innocents(finding, label)
    return _matches(finding, label, exact=True)


def _spares_innocents(finding: Finding, label: Label) -> bool:
    """Whether it names no rank, some of the label, or only those of the stage that it means."""
    if not finding["ranks"] or set(finding["ranks"]) & set(label.ranks):
        return True
    stages = {place["coords"].get("pp") for place in finding.get("culprits", ())}
    return bool(stages) and stages <= set(label.stages)

"""Findings against labels: what was found, where, since when, and what was said wrongly.

A label is found by a finding of its kind that acts in some of its steps. It is located where that
finding names exactly its ranks; where a stage is meant, the stage and no rank; where the whole job
is meant, no rank or all. Further findings of the same kind and place are the same finding told
twice. All others are false, also where they name an innocent rank of the right kind. What is said
beside labels that the data do not allow to tell is neither right nor wrong, unless it names
innocent ranks only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sample_traces.generate.labelled.labels import Label

Finding = dict[str, Any]


@dataclass(frozen=True)
class Match:
    """One label and the finding that tells of it, None: missed."""

    label: Label
    finding: Finding | None

    @property
    def is_located(self) -> bool:
        """Whether the finding names the place exactly."""
        return self.finding is not None and names_place(self.finding, self.label)

    @property
    def onset_error(self) -> int | None:
        """Steps by which the finding begins too early or too late."""
        if self.finding is None:
            return None
        return abs(int(self.finding["steps"][0]) - self.label.first_step)


@dataclass
class Scored:
    """One job: its identifiable labels with their findings, and findings that fit nothing."""

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
    """Match the findings of one job with its labels, those that name the place first."""
    left, scored = list(findings), Scored()
    fitting: dict[int, Finding] = {}
    for exact in (True, False):
        for at, label in enumerate(labels):
            fits = [f for f in left if _tells(f, label, exact)]
            if at not in fitting and fits:
                fitting[at] = min(fits, key=lambda f: abs(f["steps"][0] - label.first_step))
                left.remove(fitting[at])
    scored.matches = [
        Match(label, fitting.get(at)) for at, label in enumerate(labels) if label.is_identifiable
    ]
    scored.false = [f for f in left if not any(_is_excused(f, label) for label in labels)]
    return scored


def _tells(finding: Finding, label: Label, exact: bool) -> bool:
    same = bool(finding["kind"] == label.kind) and _meets(finding, label)
    return same and (names_place(finding, label) or not exact)


def _is_excused(finding: Finding, label: Label) -> bool:
    """Told twice, or about something that cannot be told apart."""
    if not label.is_identifiable:
        return _spares_innocents(finding, label)
    return _tells(finding, label, exact=True)


def _spares_innocents(finding: Finding, label: Label) -> bool:
    """Whether it names no rank, some of the label, or only those of the stage that it means."""
    if not finding["ranks"] or set(finding["ranks"]) & set(label.ranks):
        return True
    stages = {place["coords"].get("pp") for place in finding.get("culprits", ())}
    return bool(stages) and stages <= set(label.stages)

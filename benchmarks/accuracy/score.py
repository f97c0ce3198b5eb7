"""Scores findings against labels: detected faults, their location and onset, and false findings.

A label is found if a finding of a kind that fits covers some of its steps. It is located if that
finding names exactly its ranks; for a fault of a stage, the stage and no rank; for a fault of the
whole job, no rank or all. A finding may name the culprits of several labels at once. Further
findings of the same kind and location are duplicates of the first. A finding about a label that is
not identifiable from the data is neither right nor wrong, unless it names only innocent ranks; the
same holds for naming a culprit that the data do not show.

What is left over and names somebody is false, including an innocent rank with the right kind. What
is left over and names nobody is a statement about the job: where it says that steps are longer, it
is true where they are, and else untrue. A finding that names those whom the recorded noise really
delays is true, too, and counted by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sample_traces.generate.labelled.labels import Label

Finding = dict[str, Any]

STEPS_ARE_LONGER = ("step_regression", "jit_spikes")
"""Kinds that say no more than that all ranks take longer in some steps."""


@dataclass(frozen=True)
class Match:
    """One label and the finding that matches it, None: missed."""

    label: Label
    finding: Finding | None
    is_located: bool = False

    @property
    def onset_error(self) -> int | None:
        """Steps by which the finding begins too early or too late."""
        if self.finding is None:
            return None
        return min(abs(first - self.label.first_step) for first, _ in episodes(self.finding))


@dataclass
class Scored:
    """One job: its identifiable labels with their findings, and what is wrong.

    `false`: findings that name somebody and match no label. `untrue`: the same of findings that
    name nobody. `innocents`: findings that match a label and name an innocent rank in addition.
    `of_noise`: findings that match no label and name whom noise or habits of the job delay.
    """

    matches: list[Match] = field(default_factory=list)
    false: list[Finding] = field(default_factory=list)
    untrue: list[Finding] = field(default_factory=list)
    innocents: list[Finding] = field(default_factory=list)
    of_noise: list[Finding] = field(default_factory=list)


def episodes(finding: Finding) -> list[tuple[int, int]]:
    """First and last steps in which a finding acts, several where it lists its episodes."""
    return [(first, last) for first, last in finding.get("episodes") or [finding["steps"]]]


def names_nobody(finding: Finding) -> bool:
    """Whether it is about the whole job."""
    return not (finding["ranks"] or finding.get("stages") or finding.get("hosts"))


def names_place(finding: Finding, label: Label, fellows: Iterable[int] = ()) -> bool:
    """Whether a finding means the ranks, the stage or the job that the label means.

    `fellows`: culprits of other labels that it may name, too.
    """
    ranks = tuple(sorted(finding["ranks"]))
    if label.or_nobody and names_nobody(finding):
        return True
    if label.hosts and not ranks:
        return tuple(finding.get("hosts", ())) == label.hosts
    if not label.ranks and not label.stages:
        return len(ranks) in (0, label.job_ranks)
    if ranks or label.ranks:
        return set(label.ranks) <= set(ranks) <= {*label.ranks, *fellows}
    return tuple(finding.get("stages", ())) == label.stages


def score(labels: Sequence[Label], findings: Iterable[Finding]) -> Scored:
    """Match the findings of one job with its labels, those with the exact location first."""
    left, scored = list(findings), Scored()
    fitting: dict[int, Finding] = {}
    for exact in (True, False):
        for index, label in enumerate(labels):
            others = [(labels[other], f) for other, f in fitting.items()]
            taken = [f for other, f in others if not (exact and _is_of_both(f, label, other))]
            fits = [f for f in left if f not in taken and _matches(f, label, labels, exact)]
            if index not in fitting and fits:
                fitting[index] = min(fits, key=lambda f: _begins_apart(f, label))
    left = [f for f in left if f not in fitting.values()]
    for index, label in enumerate(labels):
        if label.is_identifiable:
            found = fitting.get(index)
            located = found is not None and names_place(found, label, _fellows(found, labels))
            scored.matches.append(Match(label, found, located))
            if found is not None and not located and _names_innocents(found, labels):
                scored.innocents.append(found)
    wrong = [f for f in left if not any(_is_excused(f, label, labels) for label in labels)]
    scored.of_noise = [f for f in wrong if f.get("is_of_noise")]
    scored.false = [f for f in wrong if not names_nobody(f) and not f.get("is_of_noise")]
    scored.untrue = [f for f in wrong if names_nobody(f) and not _is_true(f)]
    return scored


def verdicts(labels: Sequence[Label], findings: Sequence[Finding]) -> list[tuple[Finding, bool]]:
    """Each finding and whether it is right; none about faults that are not identifiable."""
    scored = score(labels, findings)
    wrong = [*scored.false, *scored.untrue]
    wrong += [m.finding for m in scored.matches if m.finding is not None and not m.is_located]
    known = [label for label in labels if label.is_identifiable]
    found = []
    for finding in findings:
        if any(finding is other for other in wrong):
            found.append((finding, False))
        elif any(_matches(finding, label, labels, True) for label in known) or _is_true(finding):
            found.append((finding, True))
    return found


def _is_of_both(finding: Finding, label: Label, other: Label) -> bool:
    """Whether a finding about one label can be about the other, too: another of its episodes, the
    same steps of the whole job, or further ranks.
    """
    if not (label.first_step <= other.last_step and other.first_step <= label.last_step):
        return len(episodes(finding)) > 1
    if names_nobody(finding):
        return label.first_step <= other.last_step and other.first_step <= label.last_step
    return not set(finding["ranks"]) <= {*label.ranks}


def _is_true(finding: Finding) -> bool:
    """Whether what it says holds without a label; judge.py compares step times."""
    if finding.get("is_of_noise"):
        return True
    return finding["kind"] in STEPS_ARE_LONGER and bool(finding.get("steps_are_longer"))


def _begins_apart(finding: Finding, label: Label) -> int:
    return min(abs(first - label.first_step) for first, _ in episodes(finding))


def _meets(finding: Finding, label: Label) -> bool:
    return any(
        first <= label.last_step and label.first_step <= last for first, last in episodes(finding)
    )


def _fellows(finding: Finding, labels: Sequence[Label]) -> set[int]:
    """Culprits of all faults of the same time."""
    return {
        rank
        for label in labels
        if _meets(finding, label)
        for rank in (*label.ranks, *label.culprits)
    }


def _matches(finding: Finding, label: Label, labels: Sequence[Label], exact: bool) -> bool:
    same = finding["kind"] in label.kinds and _meets(finding, label)
    return same and (names_place(finding, label, _fellows(finding, labels)) or not exact)


def _names_innocents(finding: Finding, labels: Sequence[Label]) -> bool:
    culprits = {rank for label in labels for rank in (*label.ranks, *label.culprits)}
    return bool(set(finding["ranks"]) - culprits)


def _is_excused(finding: Finding, label: Label, labels: Sequence[Label]) -> bool:
    """Whether it is a duplicate, or names who is at fault although the data do not show it."""
    if finding["ranks"] and _meets(finding, label) and {*finding["ranks"]} <= {*label.culprits}:
        return True
    if not label.is_identifiable:
        return _spares_innocents(finding, label)
    return _matches(finding, label, labels, exact=True)


def _spares_innocents(finding: Finding, label: Label) -> bool:
    """Whether it names no rank, some of the label, or only those of the stage that it means."""
    if not finding["ranks"] or set(finding["ranks"]) & set(label.ranks):
        return True
    stages = {place["coords"].get("pp") for place in finding.get("culprits", ())}
    return bool(stages) and stages <= set(label.stages)

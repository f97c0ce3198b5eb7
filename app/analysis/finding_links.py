"""Which finding a link names, and which view of the dashboard shows a finding."""

from __future__ import annotations

import re

from app.view_state import View
from diagnosis.findings import Diagnosis, Evidence, Finding

MOST_CULPRITS, MOST_VICTIMS = 8, 2
"""Lanes that "Show me" opens, besides the healthy peers that the evidence names."""


def chosen_finding(diagnosis: Diagnosis, finding_id: str | None) -> Finding | None:
    """The finding of that id, else the most urgent one, else None."""
    return linked_finding(diagnosis, finding_id) or next(iter(diagnosis.findings), None)


def stale_link_note(diagnosis: Diagnosis, finding_id: str | None) -> str | None:
    """A sentence where a link names a finding that no longer exists, with the one shown instead."""
    if finding_id is None or linked_finding(diagnosis, finding_id) is not None:
        return None
    shown = chosen_finding(diagnosis, finding_id)
    instead = f"; the page shows “{shown.title}” instead" if shown else ""
    return f"The finding in the link no longer exists{instead}."


def linked_finding(diagnosis: Diagnosis, finding_id: str | None) -> Finding | None:
    """The finding of an id, whose first step may move while its run is live.

    The same ranks with the same fault are the same finding: of several, the one whose first step
    is nearest.
    """
    if finding_id is None:
        return None
    fault, _, step = finding_id.rpartition("-")
    same = [f for f in diagnosis.findings if f.id == finding_id or (fault and _fault(f) == fault)]
    linked_step = int(step) if re.fullmatch("[0-9]{1,16}", step) else 0
    return min(same, key=lambda f: abs(f.first_step - linked_step), default=None)


def _fault(finding: Finding) -> str:
    """The id without its first step."""
    return finding.id.rpartition("-")[0]


def finding_view(finding: Finding, view: View) -> View:
    """Where the finding is seen best: on the timeline if a piece of evidence is there, else where
    its first evidence is.
    """
    evidence = next(
        (e for e in finding.evidence if dict(e.view).get("page") == "timeline"),
        finding.evidence[0],
    )
    shown = evidence_view(evidence, view).to(finding=finding.id)
    return shown.to(ranks=_with_roles(shown.ranks, finding)) if shown.ranks else shown


def _with_roles(ranks: tuple[int, ...], finding: Finding) -> tuple[int, ...]:
    """Lanes that have some of the culprits, and some of the ranks that wait for them."""
    culprits = [place.rank for place in finding.culprits]
    others = [rank for rank in finding.victims if rank not in ranks]
    more = others[: max(MOST_VICTIMS - (len(finding.victims) - len(others)), 0)]
    return tuple(dict.fromkeys([*ranks, *culprits[:MOST_CULPRITS], *more]))


def rank_of_numbers(finding: Finding) -> int | None:
    """The rank that its numbers are about: of several culprits the one that its first evidence
    shows, else the first; None where it names none.
    """
    culprits = [place.rank for place in finding.culprits]
    shown = dict(finding.evidence[0].view).get("rank")
    return shown if shown in culprits else next(iter(culprits), None)


def evidence_view(evidence: Evidence, view: View) -> View:
    """Where a piece of evidence is seen, in the run of `view`."""
    return View(run=view.run).to(**dict(evidence.view))

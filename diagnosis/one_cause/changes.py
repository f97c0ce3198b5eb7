"""Findings that are replaced or left out, over all verdicts of a diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from diagnosis.findings import Diagnosis, Finding, Verdict

Change = Callable[[Sequence[Finding]], dict[int, Finding | str | None]]


def with_changes(diagnosis: Diagnosis, changes: Iterable[Change]) -> Diagnosis:
    """Findings replaced or, for None or a sentence why, left out, by index over all verdicts."""
    for change in changes:
        flat = [finding for verdict in diagnosis.verdicts for finding in verdict.findings]
        changed = change(flat)
        verdicts, at = [], 0
        for verdict in diagnosis.verdicts:
            kept: list[Finding] = []
            why: list[str] = []
            for index in range(at, at + len(verdict.findings)):
                put = changed.get(index, flat[index])
                if isinstance(put, Finding):
                    kept.append(put)
                elif put is not None:
                    why.append(put)
            at += len(verdict.findings)
            verdicts.append(_changed(verdict, kept, why))
        diagnosis = Diagnosis(tuple(verdicts))
    return diagnosis


def _changed(verdict: Verdict, kept: list[Finding], why: list[str]) -> Verdict:
    if len(kept) == len(verdict.findings) and not why:
        return replace(verdict, findings=tuple(kept))
    checked = verdict.checked
    if not kept and checked is None and not verdict.not_enough:
        what = "no finding by itself" if why else "part of another finding"
        checked = f"What stood out here is {what}."
    set_aside = (*verdict.set_aside, *dict.fromkeys(why))
    return replace(verdict, findings=tuple(kept), checked=checked, set_aside=set_aside)

"""At most MOST_FINDINGS are listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from diagnosis.findings import Diagnosis, Verdict
from diagnosis.kind_titles import KIND_TITLES

MOST_FINDINGS = 10


def listed(diagnosis: Diagnosis) -> Diagnosis:
    """With at most MOST_FINDINGS findings; the others in one sentence."""
    left_out = diagnosis.findings[MOST_FINDINGS:]
    if not left_out:
        return diagnosis
    gone = {id(finding) for finding in left_out}
    more = f"{len(left_out)} more findings" if len(left_out) > 1 else "1 more finding"
    are = "are" if len(left_out) > 1 else "is"
    why = f"{more} of less urgency or cost {are} not listed: " + ", ".join(
        f"{KIND_TITLES[kind]} ({num})" for kind, num in Counter(f.kind for f in left_out).items()
    )
    verdicts = [
        replace(v, findings=tuple(f for f in v.findings if id(f) not in gone), checked=v.checked)
        if any(id(f) in gone for f in v.findings)
        else v
        for v in diagnosis.verdicts
        if any(id(f) not in gone for f in v.findings) or v.checked or v.not_enough
    ]
    unlisted = tuple(
        sentence
        for v in diagnosis.verdicts
        if not any(v.detector == other.detector for other in verdicts)
        for sentence in v.set_aside
    )
    cut = "The findings of the greatest urgency and cost are listed."
    verdicts.append(
        Verdict("findings", checked=cut, set_aside=(f"{why}.", *unlisted), of_data=True)
    )
    return Diagnosis(tuple(verdicts))

"""The steps that findings and pinned links of a run point at: retention keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.analysis.diagnosis import diagnose_run, earlier_findings
from app.analysis.finding_links import evidence_view, linked_finding
from app.view_state import View, parse_url
from diagnosis.findings import Finding
from ingest.run import Run
from ingest.run_folder.pins import Pin
from ingest.run_folder.retention_file import Kept
from ingest.run_folder.step_ranges import StepRange, united

MARGIN = 25
"""Steps kept on both sides of the first and the last step of a finding: detectors want up to 20 in
a row (docs/cli.md)."""
EVERYTHING = 2**62


def kept_by_findings(run: Run, newest: Mapping[int, int]) -> list[Kept]:
    """Steps of what is found in these attempts, each up to a step; raises UserError."""
    kept = []
    for attempt, step in newest.items():
        found = [*diagnose_run(run, attempt).findings, *earlier_findings(run, attempt, step)]
        for finding in found:
            why = f"finding {finding.id} ({finding.title})"
            kept += [Kept(steps, why) for steps in _steps_of_finding(run, finding)]
    return kept


def kept_by_pins(run: Run, pins: Sequence[Pin]) -> list[Kept]:
    """Steps that pinned links show; raises UserError."""
    kept = []
    for pin in pins:
        why = f"pinned link {pin.link}" + (f" ({pin.note})" if pin.note else "")
        kept += [Kept(steps, why) for steps in _steps_of_link(run, pin.link)]
    return kept


def _steps_of_finding(run: Run, finding: Finding) -> list[StepRange]:
    """Where each of its episodes begins and ends, and what the views of its evidence show."""
    attempt = finding.attempt
    ranges = []
    for first, last in finding.episodes or [(finding.first_step, finding.last_step)]:
        ends = (first, last) if last - first > 2 * MARGIN else (first,)
        after = MARGIN if len(ends) == 2 else last - first + MARGIN
        ranges += [
            StepRange(attempt, max(end - MARGIN, 0), end + after) for end in ends if end >= 0
        ]
    for evidence in finding.evidence:
        view = evidence_view(evidence, View())
        if view.t is not None or view.replay is not None:
            ranges += steps_of_view(run, view.to(attempt=attempt))
    return united(ranges)


def _steps_of_link(run: Run, link: str) -> list[StepRange]:
    page, _, query = link.partition("?")
    view, _ = parse_url(f"/run/x/{page}", query)
    ranges = steps_of_view(run, view)
    if view.finding is not None:
        for attempt in [view.attempt] if view.attempt is not None else run.attempts:
            found = linked_finding(diagnose_run(run, attempt), view.finding)
            ranges += _steps_of_finding(run, found) if found else []
    return united(ranges) or [_all_of(attempt) for attempt in run.attempts]


def steps_of_view(run: Run, view: View) -> list[StepRange]:
    """Steps that a view names or whose time it shows; empty: it names none."""
    attempts = run.attempts if view.attempt is None else [view.attempt]
    named = [view.steps, view.against, (view.replay, view.replay)]
    ranges = [
        StepRange(attempt, max(first, 0), last)
        for attempt in attempts
        for first, last in (pair for pair in named if pair)
        if first is not None and last is not None and last >= 0
    ]
    if view.t is not None:
        from_ns, to_ns = (int(run.info["created_ns"]) + t for t in view.t)
        rows = run.index_rows(
            "SELECT attempt, min(step) AS first, max(step) AS last FROM step_rollup"
            " WHERE step >= 0 AND begin_ns <= $to_ns AND end_ns >= $from_ns GROUP BY attempt",
            from_ns=from_ns,
            to_ns=to_ns,
        )
        ranges += [StepRange(**row) for row in rows if row["attempt"] in attempts]
    return ranges


def _all_of(attempt: int) -> StepRange:
    return StepRange(attempt, 0, EVERYTHING)

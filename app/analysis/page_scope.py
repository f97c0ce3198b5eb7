"""Which steps a page shows, and why these: the same for its tiles, grid, table and breakdown."""

from __future__ import annotations

from dataclasses import dataclass

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_links import linked_finding
from app.runs.hub import Hub
from app.view_state import View
from app.views.ranks.metric_matrix import LAST_STEPS, Steps, last_steps
from app.views.run.kpi_baseline import FIRST_STEPS, WARM_UP_STEPS
from diagnosis.findings import Diagnosis, Finding
from ingest.run import Run
from ingest.stopping import Stop

CHOSEN = "chosen"
MOST_RANKS_AT_ONCE = 1024
"""Pictures of larger jobs do not wait for the diagnosis, which takes longer than they do."""


@dataclass(frozen=True)
class PageScope:
    """Steps, both included; None: the run has no finished step. `why`: stands after the steps."""

    steps: Steps | None
    why: str = ""


def page_scope(hub: Hub, view: View, stop: Stop | None = None) -> PageScope:
    """The steps chosen by the view, else those of the finding on the page, else the newest."""
    assert view.run is not None
    if view.steps is not None:
        return PageScope(view.steps, CHOSEN)
    key = "newest steps", view.attempt
    newest = hub.cache.get(view.run, key, lambda run, _: (_newest_steps(run, view.attempt),))[0]
    if newest is None:
        return PageScope(None)
    finding = _finding(hub, view, stop)
    if finding is None or finding.first_step > newest[1]:  # no step has finished since it began
        return _newest(newest)
    return _of_finding(finding, newest[1])


def _newest_steps(run: Run, attempt: int | None) -> Steps | None:
    """The newest steps, fewer of a short run: the tiles compare them with its first ones."""
    newest = last_steps(run, attempt)
    if newest is None:
        return None
    first, last = newest
    if last - first + 1 < LAST_STEPS:  # all steps of the run
        first = max(first, min(first + WARM_UP_STEPS + FIRST_STEPS, last - FIRST_STEPS + 1))
    return first, last


def _finding(hub: Hub, view: View, stop: Stop | None) -> Finding | None:
    """The finding that the view names, else the most urgent one if it goes on."""
    assert view.run is not None
    if view.finding is None and len(hub.run(view.run).ranks) > MOST_RANKS_AT_ONCE:
        return None
    diagnosis = diagnosis_of(hub, view.run, view.attempt, stop)
    return linked_finding(diagnosis, view.finding) or _ongoing(diagnosis)


def _ongoing(diagnosis: Diagnosis) -> Finding | None:
    first = next(iter(diagnosis.findings), None)
    return first if first is not None and first.ongoing else None


def _newest(steps: Steps) -> PageScope:
    number = steps[1] - steps[0] + 1
    return PageScope(steps, f"the newest {number}" if number > 1 else "the newest")


def _of_finding(finding: Finding, newest: int) -> PageScope:
    """The last steps of a finding, as many as are shown of a run."""
    last = newest if finding.ongoing else min(finding.last_step, newest)
    first = max(finding.first_step, last - LAST_STEPS + 1)
    if first == finding.first_step:
        why = "since the finding begins" if finding.ongoing else "those of the finding"
        return PageScope((first, last), why)
    if finding.ongoing:
        return _newest((first, last))
    return PageScope((first, last), f"the last {last - first + 1} of the finding")

"""Which part of a view a shared file can show: the run may lack the steps and ranks it names."""

from __future__ import annotations

from dataclasses import dataclass

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_links import chosen_finding, finding_view, stale_link_note
from app.analysis.finding_metric import metric_of_finding
from app.analysis.headline import Headline, headline
from app.analysis.page_scope import page_scope
from app.runs.hub import Hub
from app.view_state import PAGES, View, explain
from app.views.timeline.window import attempt_for
from diagnosis.findings import Finding
from ingest.run import Run
from ingest.stopping import Stop

ONLY_LIVE = {page.name: page.title for page in PAGES if page.name in ("query", "model")}
"""Pages of which a file has nothing, with their titles: each of their pictures is a query."""


@dataclass(frozen=True)
class ShownView:
    """A view as far as its run has what it names."""

    run_name: str
    run: Run
    view: View
    attempt: int
    headline: Headline
    """what the diagnosis says where there is no finding"""
    finding: Finding | None
    timeline: View
    """what the timeline shows"""
    steps: tuple[int, int] | None
    """which the table of ranks sums up"""
    metric: str | None
    """of the heat map; None: the default"""
    notes: tuple[str, ...]
    """what cannot be shown, and why"""


def shown_view(hub: Hub, view: View, stop: Stop | None = None) -> ShownView:
    """What a shared file shows of a view; raises UserError for an unknown run."""
    run_name = view.run
    assert run_name is not None
    run = hub.run(run_name)
    notes = explain(view, run)
    if notes:
        view = _possible(view, run)
    diagnosis = diagnosis_of(hub, run_name, view.attempt, stop)
    finding = chosen_finding(diagnosis, view.finding)
    if (note := stale_link_note(diagnosis, view.finding)) is not None:
        notes.append(note)
    if (title := ONLY_LIVE.get(view.page)) is not None:
        notes.append(f"The page {title} is not in this file; open it in rankscope.")
    return ShownView(
        run_name=run_name,
        run=run,
        view=view,
        attempt=attempt_for(run, view),
        headline=headline(diagnosis, run.state),
        finding=finding,
        timeline=_timeline(view, finding),
        steps=page_scope(hub, view, stop).steps,
        metric=view.metric or _metric(finding, view),
        notes=tuple(notes),
    )


def _metric(finding: Finding | None, view: View) -> str | None:
    """That of the finding, where the view names one."""
    return metric_of_finding(finding) if finding is not None and view.finding is not None else None


def _possible(view: View, run: Run) -> View:
    """The view without what the run does not have; the notes name it."""
    attempt = view.attempt if view.attempt in run.attempts else None
    wanted = run.newest_attempt if attempt is None else attempt
    existing = {info["rank"] for info in run.ranks if info["attempt"] == wanted}
    return view.to(
        attempt=attempt,
        rank=view.rank if view.rank in existing else None,
        steps=None,
        t=None,
        ranks=tuple(rank for rank in view.ranks if rank in existing),
    )


def _timeline(view: View, finding: Finding | None) -> View:
    """The view's own lanes and window, else the finding's."""
    if finding is None or view.ranks or view.t or view.steps or view.rank is not None:
        timeline = view
    else:
        timeline = finding_view(finding, view)
    is_empty = timeline.t is not None and timeline.t[0] == timeline.t[1]
    return timeline.to(t=None) if is_empty else timeline

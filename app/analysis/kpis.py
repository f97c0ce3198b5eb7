"""The tiles of a view, the same on the live page and in a shared file."""

from __future__ import annotations

import math
import time

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_links import chosen_finding, linked_finding, rank_of_numbers
from app.analysis.finding_metric import metric_of_finding
from app.analysis.metric_maps import Maps
from app.analysis.page_scope import page_scope
from app.runs.hub import Hub
from app.runs.policies import PREFETCH, max_age
from app.view_state import View
from app.views.ranks.metric_matrix import Steps
from app.views.ranks.scales import metric_of
from app.views.run.cost_kpi import kpi_of_cost
from app.views.run.kpi import Kpi
from app.views.run.kpi_baseline import Scope
from app.views.run.kpis import measured, with_reporting
from app.views.run.rank_kpi import kpi_of_rank
from diagnosis.costs import others_with_cost
from diagnosis.findings import Diagnosis, Finding
from diagnosis.one_cause.episodes import steps_of
from ingest.run import Run
from ingest.stopping import Stop

HEARD_EVERY_S = 1.0


def scope_of(diagnosis: Diagnosis, view: View, steps: Steps | None) -> Scope:
    """`steps`, against those that the cost of the finding on the page is measured against."""
    finding = chosen_finding(diagnosis, view.finding)
    if finding is None:
        return Scope(steps)
    others = others_with_cost(finding, diagnosis.findings)
    further = {span for other in others for span in _spans(other)}
    return Scope(steps, _spans(finding), tuple(sorted(further)))


def _spans(finding: Finding) -> tuple[tuple[int, float], ...]:
    """First and last steps of its episodes; what goes on has no end."""
    *past, (first, last) = steps_of(finding)
    return *past, (first, math.inf if finding.ongoing else last)


def cost_tile(diagnosis: Diagnosis, finding_id: str | None) -> tuple[Kpi, ...]:
    """What the finding that the view names costs, else the most urgent one with a cost."""
    on_page = chosen_finding(diagnosis, finding_id)
    finding = linked_finding(diagnosis, finding_id)
    if finding is None:
        finding = next((f for f in diagnosis.findings if f.cost is not None), None)
    tile = None if finding is None else kpi_of_cost(finding, finding is on_page)
    return (tile,) if tile else ()


def kpis_of(
    hub: Hub, view: View, stop: Stop | None = None, now_ns: int | None = None
) -> tuple[Kpi, ...]:
    """Tiles of a view's run; raises UserError.

    What was measured is cached until the run has news. Which ranks are reporting depends on the
    clock as well, and just when a job hangs there is no news: that is read again each second.
    """
    assert view.run is not None
    diagnosis = diagnosis_of(hub, view.run, view.attempt, stop)
    scope = scope_of(diagnosis, view, page_scope(hub, view, stop).steps)
    key = ("kpis", view.attempt, scope)
    known = hub.cache.get(
        view.run, key, lambda run, _: measured(run, view.attempt, scope), PREFETCH
    )
    own = cost_tile(diagnosis, view.finding) + _tile_of_finding(hub, view, scope.steps, stop)
    if now_ns is not None:
        return own + with_reporting(hub.run(view.run), view.attempt, known, now_ns)
    return own + hub.cache.get(
        view.run,
        ("kpis with heartbeats", view.attempt, scope),
        lambda run, _: with_reporting(run, view.attempt, known, time.time_ns()),
        max_age(HEARD_EVERY_S),
    )


def _tile_of_finding(
    hub: Hub, view: View, steps: Steps | None, stop: Stop | None
) -> tuple[Kpi, ...]:
    """The metric of the finding that the view names, of a culprit against the peers."""
    assert view.run is not None
    finding = linked_finding(diagnosis_of(hub, view.run, view.attempt, stop), view.finding)
    metric = metric_of(view.metric or metric_of_finding(finding)) if finding else None
    rank = rank_of_numbers(finding) if finding else None
    if metric is None or steps is None or rank is None:
        return ()
    key = "tile of a finding", metric.name, view.attempt, steps, rank

    def compute(_run: Run, stop: Stop | None) -> tuple[Kpi, ...]:
        cells = Maps(hub).some(view.run or "", metric, view.attempt, steps, stop)
        tile = kpi_of_rank(cells, rank)
        return (tile,) if tile else ()

    return hub.cache.get(view.run, key, compute, stop=stop)

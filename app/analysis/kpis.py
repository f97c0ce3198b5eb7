"""The tiles of a view, the same on the live page and in a shared file."""

from __future__ import annotations

import time

from app.analysis.diagnosis import diagnosis_of
from app.runs.hub import Hub
from app.runs.policies import PREFETCH, max_age
from app.view_state import View
from app.views.run.kpis import Kpi, Scope, measured, with_reporting
from diagnosis.findings import Diagnosis
from ingest.stopping import Stop

HEARD_EVERY_S = 1.0


def scope_of(diagnosis: Diagnosis, view: View) -> Scope:
    """The steps of the view, against those before the first of all findings.

    Findings that are over count too: a baseline must not hold what was slow.
    """
    begins = (finding.first_step for finding in diagnosis.findings)
    return Scope(view.steps, min(begins, default=None))


def kpis_of(
    hub: Hub, view: View, stop: Stop | None = None, now_ns: int | None = None
) -> tuple[Kpi, ...]:
    """Tiles of a view's run; raises UserError.

    What was measured is cached until the run has news. Which ranks are reporting depends on the
    clock as well, and just when a job hangs there is no news: that is read again each second.
    """
    assert view.run is not None
    scope = scope_of(diagnosis_of(hub, view.run, view.attempt, stop), view)
    key = ("kpis", view.attempt, scope)
    known = hub.cache.get(
        view.run, key, lambda run, _: measured(run, view.attempt, scope), PREFETCH
    )
    if now_ns is not None:
        return with_reporting(hub.run(view.run), view.attempt, known, now_ns)
    return hub.cache.get(
        view.run,
        ("kpis with heartbeats", view.attempt, scope),
        lambda run, _: with_reporting(run, view.attempt, known, time.time_ns()),
        max_age(HEARD_EVERY_S),
    )

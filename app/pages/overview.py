"""Overview: who is slow and what it costs, the numbers of the job, and its pictures."""

from __future__ import annotations

import json
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from app.analysis.diagnosis import diagnosis_of
from app.analysis.finding_links import chosen_finding, finding_view
from app.analysis.kpis import kpis_of
from app.analysis.machine_samples import may_have_samples
from app.analysis.page_scope import MOST_RANKS_AT_ONCE
from app.components import about_run
from app.components.findings_frame import Address, view_at
from app.components.kpi_tiles import tiles
from app.components.outstanding import outstanding
from app.runs.hub import Hub
from app.view_state import View
from app.views.ranks.metric_matrix import last_steps
from app.views.run.logged import has_logged
from app.views.run.without_steps import Recorded, recorded
from diagnosis.findings import Diagnosis
from ingest.errors import UserError
from ingest.run import Run

_WHEN_SEEN = json.dumps({"store": "breakdown-seen"})


def render(hub: Hub, view: View) -> Component:
    """The page for a view; tiles and timeline follow the run by callbacks."""
    assert view.run is not None
    diagnosis = None
    if len(hub.run(view.run).ranks) <= MOST_RANKS_AT_ONCE:
        diagnosis = diagnosis_of(hub, view.run, view.attempt)
    first, last = about_run.places(hub, view)
    has_steps, picture = _next_to_grid(hub, view)
    pictures = html.Div(
        [_picture("grid", "Ranks in the parallel grid", {"compact": True}), picture],
        className="two-pictures",
    )
    return html.Div(
        [
            html.Div(tiles(kpis_of(hub, view)) if diagnosis else _later(), id="kpi-place"),
            # a dump without steps is opened for what is open in it
            *([*first, pictures] if has_steps or picture is None else [pictures, *first]),
            about_run.note_place(hub, view),
            *([_logged_place(hub, view)] if has_steps else []),
            html.Div(
                _timeline(hub, diagnosis, view) if diagnosis else _later("picture timeline"),
                id="overview-timeline",
            ),
            *([_machines_place()] if may_have_samples(hub, view.run) else []),
            *([_breakdown_place()] if has_steps else []),
            *last,
        ],
        className="overview",
    )


def _later(kind: str = "kpis-later") -> Component:
    """What the callbacks replace as soon as it is known."""
    return html.Div(className=f"panel loading {kind}")


def register(dash: Dash, hub: Hub) -> None:
    """Tiles and the timeline's place follow live data and the address."""
    base = (dash.config.requests_pathname_prefix or "/").rstrip("/")
    about_run.register(dash, hub, base)

    @dash.callback(
        Output("kpi-place", "children"),
        Output("overview-timeline", "children"),
        Input("pulse", "data"),
        Input("view", "data"),
        State("overview-timeline", "children"),
        State("url", "pathname"),
        State("url", "search"),
    )
    def follow(
        _pulse: object,
        address: Address,
        shown: dict[str, Any] | None,
        pathname: str | None,
        search: str | None,
    ) -> tuple[Any, Any]:
        view = view_at(address, pathname, search, base)
        if view.run is None or view.page != "overview":
            return no_update, no_update
        try:
            diagnosis = diagnosis_of(hub, view.run, view.attempt)
            timeline = _timeline(hub, diagnosis, view)
            same = shown is not None and shown.get("props", {}).get("id") == timeline.id
            return tiles(kpis_of(hub, view)), no_update if same else timeline
        except UserError:  # the run is being deleted: the page says so when it is opened again
            return no_update, no_update

    @dash.callback(
        Output("breakdown", "children"),
        Output("breakdown-note", "children"),
        Output("breakdown", "className"),
        Input("breakdown-seen", "data"),
        Input("pulse", "data"),
        Input("view", "data"),
        Input("theme", "data"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def show_breakdown(
        seen: bool | None,
        _pulse: object,
        address: Address,
        theme: str | None,
        pathname: str | None,
        search: str | None,
    ) -> tuple[Any, Any, str]:
        view = view_at(address, pathname, search, base)
        if not seen or view.run is None or view.page != "overview":
            return no_update, no_update, "loading"
        try:
            from app.components.breakdown import breakdown  # pandas: 0.2 s at the start

            return *breakdown(hub, view, theme or "dark"), ""
        except UserError as error:
            return html.P(str(error), className="failed"), "", ""


def _picture(name: str, title: str, options: dict[str, Any]) -> Component:
    return html.Section(
        html.Div(**{"data-view": name, "data-options": json.dumps(options)}, className="canvas"),
        className=f"panel picture {name}",
        **{"aria-label": title},
    )


def _next_to_grid(hub: Hub, view: View) -> tuple[bool, Component | None]:
    """Whether the run has steps or may get some, and the picture next to the grid."""
    assert view.run is not None
    key = ("instead of steps", view.attempt)
    found = hub.cache.get(view.run, key, lambda run, _: _instead(run, view))
    if found is None:
        return True, _picture("heat", "Slowdown, rank x step", {"compact": True})
    return False, outstanding(found, view)


def _instead(run: Run, view: View) -> Recorded | None:
    """What a run has instead of steps; None where it has some or may get them."""
    if run.state != "finished" or last_steps(run, view.attempt) is not None:
        return None
    return recorded(run, run.newest_attempt if view.attempt is None else view.attempt)


def _machines_place() -> Component:
    """What changed on the machines: assets/machines/telling.mjs asks once the page is drawn."""
    return html.Section(
        className="panel machine-changes", hidden=True, **{"data-view": "machine-changes"}
    )


def _logged_place(hub: Hub, view: View) -> Component:
    """What the job logged of its steps: assets/logged/view.mjs asks once the page is drawn."""
    assert view.run is not None
    has_some = hub.cache.get(view.run, "has logged", lambda run, _: has_logged(run))
    return html.Section(
        className="panel logged loading" if has_some else "panel logged",
        hidden=not has_some,
        **{"data-view": "logged", "aria-label": "Logged by the job"},
    )


def _breakdown_place() -> Component:
    """The empty panel; assets/lib/page/when_seen.mjs sets `breakdown-seen` once it is in sight."""
    return html.Section(
        [
            html.Header(
                [
                    html.H2("Where a step's time goes"),
                    html.Span("mean of the steps, ms", id="breakdown-note", className="quiet"),
                ]
            ),
            html.Div(id="breakdown", className="loading"),
            html.Div(**{"data-view": "when-seen", "data-options": _WHEN_SEEN}),
            dcc.Store(id="breakdown-seen"),
        ],
        className="panel breakdown",
        **{"aria-label": "Where a step's time goes"},
    )


def _timeline(hub: Hub, diagnosis: Diagnosis, view: View) -> Component:
    """The culprit, victims and a peer at its first slow steps; a new one per finding."""
    assert view.run is not None
    if not hub.cache.get(view.run, ("has rows", view.attempt), lambda run, _: _has_rows(run, view)):
        text = "The lanes of the ranks appear here with the first span."
        return html.Section(
            html.P(text, className="sentence"), id="timeline-of-nothing", className="panel picture"
        )
    options: dict[str, Any] = {"compact": True}
    finding = chosen_finding(diagnosis, view.finding)
    if finding is not None:
        target = finding_view(finding, view)
        options |= {
            "ranks": list(target.ranks),
            "steps": target.steps,
            "rank": target.rank,
            "attempt": finding.attempt,
        }
    name = finding.id if finding else "none"
    return html.Section(
        html.Div(
            key=name,
            className="canvas",
            **{"data-view": "finding-timeline", "data-options": json.dumps(options)},
        ),
        id=f"timeline-of-{name}",
        className="panel picture timeline",
        key=name,
        **{"aria-label": "Timeline of the ranks that the finding is about"},
    )


def _has_rows(run: Run, view: View) -> bool:
    attempt = run.newest_attempt if view.attempt is None else view.attempt
    found = run.index_rows(
        "(SELECT 1 FROM step_rollup WHERE attempt = $attempt LIMIT 1) UNION ALL"
        " (SELECT 1 FROM collective_rollup WHERE attempt = $attempt LIMIT 1)",
        attempt=attempt,
    )
    return bool(found)

"""Experts: how tokens are spread over experts, and what it costs."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from ingest.run import Run


def has_data(hub: Hub, run: str) -> bool:
    """Whether loads of experts were recorded, or could be: a job with hooks."""
    is_job = hub.run(run).info["source"] == "hooks"
    return is_job or hub.cache.get(run, "has experts", lambda run, _: _has_files(run))


def _has_files(run: Run) -> bool:
    asked = "SELECT count(*) AS n FROM files WHERE table_name = 'expert_load'"
    return bool(run.index_rows(asked)[0]["n"])


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/experts/view.mjs asks for the numbers and draws them."""
    return html.Div(
        [
            html.H1("Experts", className="visually-hidden"),
            html.Div(className="experts", **{"data-view": "experts"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

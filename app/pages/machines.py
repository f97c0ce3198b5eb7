"""Machines: what the hosts under the ranks did, what changed on them, what could not be read."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.analysis.machine_samples import may_have_samples
from app.runs.hub import Hub
from app.view_state import View


def has_data(hub: Hub, run: str) -> bool:
    """Whether the run has samples of machines, or could have: a job with hooks."""
    return may_have_samples(hub, run)


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/machines/view.mjs asks for the numbers and draws them."""
    return html.Div(
        [
            html.H1("Machines", className="visually-hidden"),
            html.Div(className="machines", **{"data-view": "machines"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

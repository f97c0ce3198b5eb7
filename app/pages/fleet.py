"""Fleet: all runs together."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View


def render(hub: Hub, view: View) -> Component:
    """The page; assets/fleet/view.mjs asks for the numbers and draws them."""
    return html.Div(
        [
            html.H1("Fleet", className="visually-hidden"),
            html.Div(className="fleet", **{"data-view": "fleet"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

"""Selftest: what devices, pairs and groups achieved, in a self-test or in ordinary steps."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from app.views.selftest import SOURCE


def has_data(hub: Hub, run: str) -> bool:
    """Whether the run is a self-test; of other runs the page shows bandwidths between hosts."""
    return hub.run(run).info["source"] == SOURCE


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/selftest/view.mjs fetches the numbers and draws them."""
    return html.Div(
        [
            html.H1("Selftest", className="visually-hidden"),
            html.Div(className="selftest", **{"data-view": "selftest"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

"""What-if: what stragglers cost, who they are, and how a step would go without them."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from app.views.whatif.analysis import can_replay


def has_data(hub: Hub, run: str) -> bool:
    """Whether a run records what a replay needs."""
    return hub.cache.get(run, "can replay", lambda run, _: can_replay(run))


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/whatif/view.mjs asks for the numbers and draws them."""
    return html.Div(
        [
            html.H1("What-if", className="visually-hidden"),
            html.Div(className="whatif", **{"data-view": "what-if"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

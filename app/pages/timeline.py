"""Timeline: what every rank did, lane by lane."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.components.about_run import note_place
from app.runs.hub import Hub
from app.view_state import View


def render(hub: Hub, view: View) -> Component:
    """The page for a view; the lanes follow the address by themselves."""
    lanes = html.Section(
        html.Div(**{"data-view": "timeline", "data-options": "{}"}),
        className="panel timeline-page",
        **{"aria-label": "Timeline"},
    )
    return html.Div([note_place(hub, view), lanes], className="with-note")


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the browser side asks the routes of the timeline itself."""

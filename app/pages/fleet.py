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
            *_left_out(hub),
            html.Div(className="fleet", **{"data-view": "fleet"}),
        ]
    )


def _left_out(hub: Hub) -> list[Component]:
    """What is not in the numbers, if there is anything."""
    num_here, num_elsewhere = len(hub.folders()), len(hub.elsewhere())
    if not num_elsewhere:
        return []
    text = (
        f"Counted are the runs that this server has fetched from the bucket: {num_here}. Not here, "
        f"or not up to date, until somebody opens them: {num_elsewhere}."
    )
    return [html.P(text, className="note")]


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

"""Timeline."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.hub import Hub
from app.links import View


def render(hub: Hub, view: View) -> Component:
    """The page for a view."""
    return html.Div(html.H1("Timeline"), className="panel")


def register(dash: Dash, hub: Hub) -> None:
    """The page's callbacks."""

"""Efficiency: what the devices' time went to, by step and over the whole run."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View

_SECTIONS = ("mfu", "roofline", "startup", "goodput")
"""Views from top to bottom; assets/NAME/view.mjs asks for the numbers and draws them."""


def render(hub: Hub, view: View) -> Component:
    """The page for a view."""
    sections = [html.Div(className=name, **{"data-view": name}) for name in _SECTIONS]
    return html.Div(
        [html.H1("Efficiency", className="visually-hidden"), *sections], className="efficiency"
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the views ask the server themselves."""

"""Ranks: the grid, the heat maps and the table, all by one metric."""

from __future__ import annotations

import json

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View


def render(hub: Hub, view: View) -> Component:
    """The page for a view; what is on it follows the view state by itself."""
    return html.Div(
        [
            html.H1("Ranks", className="visually-hidden"),
            _mounted("metric-picker", "panel"),
            html.Div(
                [_mounted("grid", "panel"), _mounted("heat", "panel")], className="ranks-maps"
            ),
            _mounted("rank-table", "panel"),
        ],
        className="page-ranks",
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the views on this page ask the server themselves."""


def _mounted(name: str, class_name: str, **options: object) -> Component:
    return html.Section(
        className=class_name, **{"data-view": name, "data-options": json.dumps(options)}
    )

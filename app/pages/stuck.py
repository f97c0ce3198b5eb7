"""Stuck: who is waited for, by whom, in which operation, since when, and what ranks do instead."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.analysis.stuck_page import can_be_stuck
from app.runs.hub import Hub
from app.view_state import View


def has_data(hub: Hub, run: str) -> bool:
    """Whether a job ran with hooks, or dumps or logs say where its ranks stood."""
    return can_be_stuck(hub, run)


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/stuck/view.mjs asks for what is known and shows it."""
    return html.Div(
        [
            html.H1("Stuck", className="visually-hidden"),
            html.Div(className="stuck", **{"data-view": "stuck"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

"""Model: what happens inside the network, its statistics and recorded frames."""

from __future__ import annotations

import json

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from app.views.model.recorded import first_view, has_model


def has_data(hub: Hub, run: str) -> bool:
    """Whether a run records something of its model."""
    return has_model(hub.run(run))


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/model/view.mjs asks for the numbers and draws them."""
    assert view.run is not None
    options = {"first": hub.cache.get(view.run, "first model view", lambda run, _: first_view(run))}
    return html.Div(
        [
            html.H1("Model", className="visually-hidden"),
            html.Div(
                className="model", **{"data-view": "model", "data-options": json.dumps(options)}
            ),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the views on this page ask the server themselves."""

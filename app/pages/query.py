"""Query: saved queries with documentation, your own SQL, answers as table and CSV."""

from __future__ import annotations

import json

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from app.views.run.query import questions


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/query/view.mjs draws it from the questions in its options."""
    run = hub.run(view.run or "")
    options = {
        "questions": questions(),
        "folder": str(run.folder),
        "t0": str(run.info["created_ns"]),
    }
    return html.Div(
        className="query-page", **{"data-view": "query", "data-options": json.dumps(options)}
    )


def register(dash: Dash, hub: Hub) -> None:
    """The page has no callbacks: it talks to api/run/RUN/query."""

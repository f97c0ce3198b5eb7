"""Data: who waits for batches, and what the data loaders do."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import View
from ingest.run import Run


def has_data(hub: Hub, run: str) -> bool:
    """Whether batches were recorded, or could be: a job with hooks."""
    is_job = hub.run(run).info["source"] == "hooks"
    return is_job or hub.cache.get(run, "has batches", lambda run, _: _has_files(run))


def _has_files(run: Run) -> bool:
    asked = "SELECT count(*) AS n FROM files WHERE table_name = 'data_batches'"
    return bool(run.index_rows(asked)[0]["n"])


def render(hub: Hub, view: View) -> Component:
    """The page for a view; assets/data/view.mjs asks for the numbers and draws them."""
    return html.Div(
        [
            html.H1("Data", className="visually-hidden"),
            html.Div(className="data-loading", **{"data-view": "data"}),
        ]
    )


def register(dash: Dash, hub: Hub) -> None:
    """Nothing: the view asks the server itself."""

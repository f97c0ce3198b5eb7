"""The two pages without a run: the list of runs, and all runs together."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from app.view_state import FLEET, PAGE_NAMES, View

_RUNS = PAGE_NAMES[0]
"""The page of a view without a run, which is the list of runs."""


def start_tabs(view: View, base: str) -> Component:
    """Links to both; assets/main.mjs opens them without a reload."""
    return html.Nav(
        [
            html.A(
                title,
                href=View(page=page).url(base),
                **{
                    "data-page": page,
                    "aria-current": "page" if (view.page == FLEET) == (page == FLEET) else "false",
                },
            )
            for page, title in ((_RUNS, "Runs"), (FLEET, "Fleet"))
        ],
        **{"aria-label": "pages"},
    )

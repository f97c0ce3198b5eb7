"""The bar on top of every page: which run, how it is, the tabs."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from app.hub import Hub
from app.links import PAGES, View


def topbar(hub: Hub, view: View, base: str) -> Component:
    """Brand, tabs, run, layout and live state; raises UserError for an unknown run."""
    brand = html.A("rankscope", href=f"{base}/", className="brand")
    if view.run is None:
        return html.Header([brand], className="topbar")
    run = hub.run(view.run)
    layout = run.layout(view.attempt)
    sizes = " x ".join(f"{axis} {size}" for axis, size in layout.axes) if layout else ""
    tabs = [
        html.A(
            page.capitalize(), href=View(view.run, page).url(base),
            **{"data-page": page, "aria-current": "page" if page == view.page else "false"},
        )
        for page in PAGES
    ]  # fmt: skip
    chips = [html.Span(view.run, className="chip")]
    if sizes:
        chips.append(html.Span(sizes, className="chip"))
    chips.append(html.Span(run.state, className=f"chip state {run.state}"))
    return html.Header(
        [brand, html.Nav(tabs, **{"aria-label": "pages"}), html.Div(chips, className="right")],
        className="topbar",
    )

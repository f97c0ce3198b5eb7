"""The Dash app: the HTML of every page, and which page an address shows."""

from __future__ import annotations

import json
from dataclasses import asdict

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from flask import Flask

from app.components import findings_frame
from app.components.topbar import topbar
from app.pages import fleet, page_module, runs, tabs
from app.runs.hub import Awaited, Hub
from app.share.bundle import from_folder, modules
from app.view_state import FLEET, PAGES, View, explain, parse_url
from app.web.assets import STYLE, assets_folder, assets_version
from app.web.dash_requests import refuse_malformed
from ingest.errors import UserError

_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rankscope</title>
<link rel="icon" type="image/svg+xml" href="ASSETS/icon.svg">
LINKS
<script>document.documentElement.dataset.theme = localStorage.getItem("theme") ||
(matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark")</script>
<script type="application/json" id="rankscope-config">CONFIG</script>
</head>
<body>
{%app_entry%}
<footer hidden>{%config%}{%scripts%}{%renderer%}</footer>
<script type="module" src="ASSETS/main.mjs"></script>
</body>
</html>"""


def make_dash(hub: Hub, base: str) -> Dash:
    """The Dash app on its own Flask server, answering below `base` ('' or '/prefix')."""
    dash = Dash(
        "rankscope",
        server=Flask("rankscope"),
        requests_pathname_prefix=f"{base}/",
        routes_pathname_prefix="/",
        title="rankscope",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        assets_folder="no-assets-of-dash",
        compress=False,
    )
    assets = f"{base}/assets/{assets_version()}"
    links = [f'<link rel="stylesheet" href="{assets}/{STYLE}">'] + [
        f'<link rel="modulepreload" href="{assets}/{path}">'
        for path in modules("main.mjs", from_folder(assets_folder()))
    ]
    pages = [asdict(page) for page in PAGES]
    config = json.dumps({"base": base, "pages": pages}).replace("<", "\\u003c")
    dash.index_string = (
        _INDEX.replace("LINKS", "\n".join(links))
        .replace("CONFIG", config)
        .replace("ASSETS", assets)
    )
    dash.layout = _frame
    refuse_malformed(dash)
    _register(dash, hub, base)
    runs.register(dash, hub)
    fleet.register(dash, hub)
    for page in PAGES:
        page_module(page.name).register(dash, hub)
    return dash


def _frame() -> Component:
    return html.Div(
        [
            html.A("Skip to the page", href="#page", className="skip"),
            dcc.Location(id="url", refresh="callback-nav"),
            # {path, search}: the address, set by the browser as the view changes
            dcc.Store(id="view"),
            # {run, version}: set by the browser when the run has new data
            dcc.Store(id="pulse"),
            # set by the browser when the top bar is out of date
            dcc.Store(id="bar"),
            html.Div(id="topbar"),
            html.Div(id="strip-place"),
            *findings_frame.containers(),
            html.Main(id="page", className="page loading", tabIndex="-1"),
        ]
    )


def _register(dash: Dash, hub: Hub, base: str) -> None:
    @dash.callback(
        Output("page", "children"),
        Output("page", "className"),
        Output("strip-place", "children"),
        Input("url", "pathname"),
        State("url", "search"),
    )
    def show_page(pathname: str, search: str | None) -> tuple[Component, str, Component | None]:
        view, problems = parse_url(pathname or "/", search or "", base)
        notes = [html.P(problem, className="quiet note") for problem in problems]
        try:
            if view.run is None and problems:
                return _panel(problems[0], base), "page", None
            if view.run is None:
                start = fleet if view.page == FLEET else runs
                return html.Div([*notes, start.render(hub, view)]), "page", None
            missing = explain(view, hub.run(view.run), on_page=True)
            notes += [html.P(text, className="note") for text in missing]
            strip = html.Div(className="strip", **{"data-view": "strip"})
            return html.Div([*notes, page_module(view.page).render(hub, view)]), "page", strip
        except UserError as error:
            return _sentence(error, base), "page", None

    @dash.callback(
        Output("topbar", "children"),
        Input("url", "pathname"),
        Input("bar", "data"),
        State("url", "search"),
    )
    def show_topbar(pathname: str, _bar: str | None, search: str | None) -> Component:
        view, _ = parse_url(pathname or "/", search or "", base)
        try:
            return topbar(hub, view, base, tabs(hub, view))
        except UserError:
            return topbar(hub, View(), base, ())

    findings_frame.register(dash, hub, base)


def _sentence(error: UserError, base: str) -> Component:
    lead = "Starting: " if isinstance(error, Awaited) else "Nothing to show: "
    return _panel([html.Strong(lead), str(error)], base)


def _panel(text: str | list[Component | str], base: str) -> Component:
    """What an address without a page shows: why, and where to go."""
    return html.Div([html.P(text), html.A("All runs", href=f"{base}/")], className="panel sentence")

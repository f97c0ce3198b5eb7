"""Findings on every page: the banner, the count on the button, and the drawer."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from app.analysis.diagnosis import diagnosis_of
from app.components.banner import banner
from app.components.drawer import drawer
from app.components.topbar import findings_button
from app.runs.hub import Hub
from app.view_state import View, parse_url
from app.views.run.about_run import Clocks
from app.views.run.about_run import clocks as clocks_of
from ingest.errors import UserError

Address = dict[str, str] | None


def containers() -> list[Component]:
    """The elements that register() fills."""
    return [
        html.Div(id="banner-place"),
        html.Aside(id="drawer", hidden=True, tabIndex="-1", **{"aria-label": "findings"}),
        dcc.Store(id="theme"),  # set by the browser, for charts drawn here
        dcc.Store(id="found"),  # digest of what banner and drawer show
        html.Div(id="toast", role="status", **{"aria-live": "polite"}),
    ]


def register(dash: Dash, hub: Hub, base: str) -> None:
    """Banner and drawer follow the address and live data; while their content is the same they are
    not drawn again. The count follows them.
    """

    @dash.callback(
        Output("banner-place", "children"),
        Output("drawer", "children"),
        Output("found", "data"),
        Input("url", "pathname"),
        Input("pulse", "data"),
        Input("view", "data"),
        State("url", "search"),
        State("found", "data"),
    )
    def show_findings(
        pathname: str | None,
        _pulse: object,
        address: Address,
        search: str | None,
        shown: str | None,
    ) -> tuple[Any, Any, str | None]:
        view = view_at(address, pathname, search, base)
        if view.run is None:
            return None, None, None
        try:
            diagnosis = diagnosis_of(hub, view.run, view.attempt)
            clocks = _clocks_of(hub, view.run, view.attempt)
            state = hub.run(view.run).state
        except UserError:  # the page itself says why
            return None, None, None
        digest = f"{diagnosis.digest} {view.url(base)} {clocks.sentence} {state}"
        if digest == shown:
            raise PreventUpdate
        with_banner = view.page == "overview" or view.finding is not None
        line = banner(diagnosis, view, base, state) if with_banner else None
        return line, drawer(diagnosis, view, base, clocks), digest

    @dash.callback(
        Output("findings-count", "children"),
        Input("findings-count", "id"),
        Input("found", "data"),
        State("view", "data"),
        State("url", "pathname"),
        State("url", "search"),
    )
    def show_count(
        _id: str, _found: str | None, address: Address, pathname: str | None, search: str | None
    ) -> Any:
        view = view_at(address, pathname, search, base)
        try:
            return findings_button(diagnosis_of(hub, view.run or "", view.attempt))
        except UserError:
            return no_update


def _clocks_of(hub: Hub, name: str, attempt: int | None) -> Clocks:
    return hub.cache.get(name, ("clocks", attempt), lambda run, _: clocks_of(run, attempt))


def view_at(address: Address, pathname: str | None, search: str | None, base: str) -> View:
    """The view of the `view` store where it is of the same path, else of the address bar."""
    if address and address.get("path") == pathname:
        search = address.get("search")
    return parse_url(pathname or "/", search or "", base)[0]

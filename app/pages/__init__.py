"""Pages: one module for each, and for the start page. Which there are: PAGES of app/view_state.py.

A module has a pure render(hub, view), a register(dash, hub) for its callbacks and, where only some
runs have its data, has_data(hub, run).
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from dash import Dash
from dash.development.base_component import Component

from app.runs.hub import Hub
from app.view_state import PAGES, Page, View


class PageModule(Protocol):
    """What a module of this folder has."""

    def render(self, hub: Hub, view: View) -> Component:
        """The page for a view."""

    def register(self, dash: Dash, hub: Hub) -> None:
        """Its callbacks."""


def page_module(name: str) -> PageModule:
    """The module of a page of PAGES."""
    (page,) = (page for page in PAGES if page.name == name)
    return cast(PageModule, import_module(f"{__name__}.{page.module}"))


def tabs(hub: Hub, view: View) -> tuple[Page, ...]:
    """Pages that the run of a view has data for, and the one that it shows."""
    run = view.run
    if run is None:
        return ()
    return tuple(page for page in PAGES if page.name == view.page or _has_data(page, hub, run))


def _has_data(page: Page, hub: Hub, run: str) -> bool:
    has_data = getattr(page_module(page.name), "has_data", None)
    return has_data is None or has_data(hub, run)

"""A long name that keeps its end where there is no room: names differ at their ends.

The style `.cut` shortens the first part; cutName in assets/lib/dom.mjs is the same in the browser.
"""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

KEPT_END = 12
"""Characters at the end of a name that always show."""


def parts(name: str) -> tuple[str, str]:
    """What may be shortened, and the end that stays."""
    cut = max(0, len(name) - KEPT_END)
    return name[:cut], name[cut:]


def cut_name(name: str) -> Component:
    """The name as an element; its text is the whole name."""
    return html.Span([html.Span(part) for part in parts(name)], className="cut")

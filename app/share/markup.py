"""HTML put together from data: whatever is not Markup is escaped."""

from __future__ import annotations

from html import escape

VOID = ("meta", "br", "link")


class Markup(str):
    """Text that is HTML already."""


def tag(kind: str, /, *children: str | None, **attributes: str | bool | None) -> Markup:
    """An element; None children are left out, `class_` is class, `data_x` is data-x."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if kind in VOID:
        return Markup(f"<{kind}{said}>")
    return Markup(f"<{kind}{said}>{joined(*children)}</{kind}>")


def joined(*children: str | None) -> Markup:
    """Children one after the other."""
    return Markup(
        "".join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None)
    )

"""HTML elements from data: whatever is not Markup is escaped."""

from __future__ import annotations

from markupsafe import Markup

VOID = ("meta", "br", "link")


def tag(kind: str, /, *children: str | None, **attributes: str | bool | None) -> Markup:
    """An element; None children are left out, `class_` is class, `data_x` is data-x."""
    written = Markup("").join(
        Markup(" {}").format(name) if value is True else Markup(' {}="{}"').format(name, value)
        for key, value in attributes.items()
        if value is not None and value is not False
        for name in [key.rstrip("_").replace("_", "-")]
    )
    start = Markup("<{}{}>").format(kind, written)
    return start if kind in VOID else start + joined(*children) + Markup("</{}>").format(kind)


def joined(*children: str | None) -> Markup:
    """Children one after the other."""
    return Markup("").join(child for child in children if child is not None)

"""Numbers as training frameworks print them."""

from __future__ import annotations

FLOAT = r"[-+]?(?:\d{1,24}(?:,\d{3}){0,6}(?:\.\d{0,24})?(?:[eE][-+]?\d{1,3})?|nan|NaN|inf)"


def as_float(text: str) -> float:
    """A match of FLOAT."""
    return float(text.replace(",", ""))

"""How sentences write numbers with a unit."""

from __future__ import annotations


def in_ms(value: float) -> str:
    """A time in words; s from 10 s on."""
    return (
        f"{value / 1000:.1f} s" if value >= 10_000 else f"{value:,.{0 if value >= 10 else 1}f} ms"
    )

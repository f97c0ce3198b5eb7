"""Arithmetic on many intervals at once; the hooks share it (trace_hooks/step_sums)."""

from trace_hooks.step_sums.intervals import (
    Bools,
    Ints,
    Segments,
    divide,
    enclosing,
    fits,
    numbered,
    overlay,
    owned_segments,
    parents,
    pieces,
)

__all__ = [
    "Bools",
    "Ints",
    "Segments",
    "divide",
    "enclosing",
    "fits",
    "numbered",
    "overlay",
    "owned_segments",
    "parents",
    "pieces",
]

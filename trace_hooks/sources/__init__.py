"""Where events come from: one module per source, imported only when it is installed."""

from __future__ import annotations

from importlib import import_module

from trace_hooks.source_names import SOURCES
from trace_hooks.sources.base import Source


def load_source(name: str) -> type[Source]:
    """Class of a source; raises ValueError for an unknown name."""
    if name not in SOURCES:
        raise ValueError(f"unknown source {name!r}; known: {', '.join(SOURCES)}")
    module, _, attribute = SOURCES[name].partition(":")
    source: type[Source] = getattr(import_module(f"trace_hooks.sources.{module}"), attribute)
    return source

"""Where events come from: one module per source, imported only when it is installed."""

from __future__ import annotations

from importlib import import_module

from trace_hooks.sources.base import Source

SOURCES = {
    "modules": "modules:Modules",
    "pipeline": "pipeline:Pipeline",
    "collectives": "collectives:Collectives",
    "functional": "functional:FunctionalCollectives",
    "flight_recorder": "flight_recorder:FlightRecorder",
    "optimizer": "optimizer:Optimizers",
    "data": "data:DataLoaders",
    "gc": "collector:GarbageCollector",
    "checkpoint": "checkpoint:Checkpoints",
    "memory": "memory:Memory",
    "perturbing": "perturbing:Perturbing",
    "statistics": "statistics:Statistics",
    "attention_statistics": "attention_statistics:AttentionStatistics",
    "inspection": "inspection:Inspection",
    "kernel_capture": "kernel_capture:KernelCapture",
    "prompting": "prompting:Prompting",
}
"""name: module:class, in the order of installation."""


def load_source(name: str) -> type[Source]:
    """Class of a source; raises ValueError for a name that is none."""
    if name not in SOURCES:
        raise ValueError(f"unknown source {name!r}; known: {', '.join(SOURCES)}")
    module, _, attribute = SOURCES[name].partition(":")
    found: type[Source] = getattr(import_module(f"trace_hooks.sources.{module}"), attribute)
    return found

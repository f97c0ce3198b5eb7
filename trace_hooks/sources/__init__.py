"""Where events come from: one module per source, imported only when it is installed."""

from __future__ import annotations

from importlib import import_module

from trace_hooks.sources.base import Source

SOURCES = {
    "modules": "training.modules:Modules",
    "pipeline": "training.pipeline:Pipeline",
    "collectives": "communication.collectives:Collectives",
    "functional": "communication.functional:FunctionalCollectives",
    "flight_recorder": "communication.flight_recorder:FlightRecorder",
    "optimizer": "training.optimizer:Optimizers",
    "data": "training.data_loader:DataLoaders",
    "gc": "training.garbage_collection:GarbageCollector",
    "checkpoint": "training.checkpoint:Checkpoints",
    "memory": "training.memory:Memory",
    "perturbing": "perturbation.perturbation:Perturbing",
    "statistics": "tensors.statistics:Statistics",
    "attention_statistics": "tensors.attention_statistics:AttentionStatistics",
    "inspection": "inspection.inspection:Inspection",
    "kernel_capture": "profiling.kernel_capture:KernelCapture",
    "prompting": "prompting.prompting:Prompting",
}
"""name: module:class, in the order of installation."""


def load_source(name: str) -> type[Source]:
    """Class of a source; raises ValueError for a name that is none."""
    if name not in SOURCES:
        raise ValueError(f"unknown source {name!r}; known: {', '.join(SOURCES)}")
    module, _, attribute = SOURCES[name].partition(":")
    found: type[Source] = getattr(import_module(f"trace_hooks.sources.{module}"), attribute)
    return found

"""Callbacks for training frameworks, as attributes of trace_hooks: `trace_hooks.hf.Callback()`.

A module here is imported, and with it its framework, when a script asks for it. Each of them uses
what every script can use (`trace_hooks.start` and the tracer), and adds what only the framework
knows: its step numbers, its losses, where it evaluates.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

FRAMEWORKS = {
    "hf": "transformers",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "megatron": "megatron-core",
    "torchtitan": "torchtitan",
}
"""Module of this package: the distribution that it needs."""


def load(name: str) -> ModuleType:
    """The module for a framework; ImportError, in one sentence, where that is not installed."""
    try:
        return import_module(f"trace_hooks.integrations.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"trace_hooks.{name} needs {FRAMEWORKS[name]} ({error}); install it in the "
            "environment of the job",
            name=error.name,
        ) from None

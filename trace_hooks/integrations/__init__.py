"""Callbacks for training frameworks, as attributes of trace_hooks: `trace_hooks.hf.Callback()`.

A module here is imported, and with it its framework, when a script asks for it. Each of them uses
what every script can use (`trace_hooks.start` and the tracer), and adds what only the framework
knows: its step numbers, its losses, where it evaluates.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

import trace_hooks

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


def number_step(tracer: trace_hooks.Tracer, number: int) -> None:
    """The framework has ended the step with this number, which the hooks may not know yet: until
    another optimizer steps, the first step lasts, and one whose optimizer an overflow has stopped.
    """
    tracer.renumber(number if tracer.steps.running else number + 1)


class OwnTracer:
    """The tracer of a callback: the one that runs, else one that is started, once a process.

    `chosen`: arguments of trace_hooks.start. A copy in another process (fork, pickle) starts its
    own.
    """

    def __init__(self, chosen: dict[str, Any]) -> None:
        self._chosen = chosen
        self._started: tuple[int, trace_hooks.Tracer] | None = None

    def __call__(self) -> trace_hooks.Tracer:
        """The tracer; raises ValueError for an argument that is not valid."""
        pid = os.getpid()
        if self._started is None or self._started[0] != pid:
            self._started = pid, trace_hooks.start(**self._chosen)
        return self._started[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_chosen": self._chosen, "_started": None}

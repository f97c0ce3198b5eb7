"""The tracer that does nothing, where nothing is to be traced."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from trace_hooks.protocol.watches import Ack
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources.installed import InstalledSources
from trace_hooks.tracer import Tracer


class NullTracer(Tracer):
    """The tracer of TRACE_HOOKS=0 and of processes that are no ranks: does nothing at all."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.steps = StepCounter(self.recorder, int, int)  # type: ignore[arg-type]
        self._sources = InstalledSources((), self.recorder, self.steps)
        self._stopped = True

    def step(self, n: int | None = None) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def span(self, name: str, kind: str = "host") -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Nothing."""

    def inspect(self, *watches: Mapping[str, Any]) -> list[Ack]:
        """Nothing."""
        return []

    def perturb(self, value: Mapping[str, Any]) -> Ack:
        """Nothing."""
        return Ack("", False, "this process is not traced; nothing can be perturbed")

    def prompts(self, model: Any, **how: Any) -> None:
        """Nothing."""

    def tokens(self, ids: Any = None, **how: Any) -> None:
        """Nothing."""

    def log(self, **values: Any) -> None:
        """Nothing."""

    def mark(self, kind: str, text: str, **args: Any) -> None:
        """Nothing."""

    def stop(self, status: str = "finished", error: str | None = None) -> None:
        """Nothing."""

"""The one tracer of this process: its start, its end, and what a forked child does with it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from trace_hooks.protocol.watches import Ack
from trace_hooks.recording import guard
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.settings import Settings, is_off, read_settings
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.installed import InstalledSources
from trace_hooks.tracer import Tracer

_current: Tracer | None = None
_inherited: Tracer | None = None  # of the parent process, in a forked child
_starts = 0


def start(model: Any, **chosen: Any) -> Tracer:
    """The tracer of trace_hooks.start; `chosen`: what settings.read_settings takes."""
    global _current
    if is_off(os.environ) or _is_importing_main():
        return NullTracer()
    if _current is not None:
        return _current
    settings = read_settings(os.environ, **chosen)
    tracer = guard.attempt("tracer.start", lambda: _started(settings, model), switch_off=False)
    if tracer is None:
        return NullTracer()
    _current = tracer
    return tracer


def _started(settings: Settings, model: Any) -> Tracer:
    global _starts
    if _inherited is not None:
        _inherited.uninstall_sources()
    tracer = Tracer(settings, model, ordinal=_starts, on_stop=_forget)
    _starts += 1
    tracer.begin()
    if hasattr(model, "named_modules"):
        tracer.watch(model)
    return tracer


def _forget(tracer: Tracer) -> None:
    """A tracer has stopped: the next `start` makes a new one."""
    global _current
    if _current is tracer:
        _current = None


def _is_importing_main() -> bool:
    """Whether a spawned worker is only importing the user's script."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _after_fork() -> None:
    """In a forked child: no thread, no files, no hooks; a `start` of its own makes a new tracer."""
    global _current, _inherited
    if _current is not None:
        _inherited, _current = _current, None
        guard.switch_all_off()
        _inherited.abandon()


os.register_at_fork(after_in_child=_after_fork)


class NullTracer(Tracer):
    """The tracer of TRACE_HOOKS=0 and of processes that are not ranks: does nothing at all."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.steps = StepCounter(self.recorder, int, int)  # type: ignore[arg-type]
        self.context = SourceContext(self.recorder, self.steps)
        self._sources = InstalledSources((), self.context)
        self._stopped = True

    def _active(self) -> bool:
        return False

    def step(self, n: int | None = None) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def renumber(self, n: int) -> None:
        """Nothing."""

    def span(self, name: str, kind: str = "host") -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Nothing."""

    def install(self, source: Source) -> None:
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

    def router(self, module: Any, num_experts: int, **how: Any) -> None:
        """Nothing."""

    def mark(self, kind: str, text: str, **args: Any) -> None:
        """Nothing."""

    def stop(self, status: str = "finished", error: str | None = None) -> None:
        """Nothing."""

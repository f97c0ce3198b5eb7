"""The sources of one process, called together, each behind a guard of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_hooks.recording import guard
from trace_hooks.recording.drain_thread import Chore
from trace_hooks.sources import load_source
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext


class InstalledSources:
    """Those of `names` that could be loaded, in this order."""

    def __init__(self, names: Sequence[str], context: SourceContext) -> None:
        self.all: list[Source] = []
        for name in names:
            kind = guard.attempt(f"tracer.{name}.load", lambda n=name: load_source(n))  # type: ignore[misc]
            if kind is not None:
                source = guard.attempt(
                    f"tracer.{name}.load",
                    lambda k=kind: k(context),  # type: ignore[misc]
                )
                if source is not None:
                    source.name = source.name or name
                    self.all.append(source)
        self._begin_step = guard.Each(
            [
                (f"tracer.{source.name}.step_begin", source.step_begin)
                for source in self.all
                if type(source).step_begin is not Source.step_begin
            ]
        )
        self._end_step = guard.Each(
            [
                (f"tracer.{source.name}.step_end", source.step_end)
                for source in self.all
                if type(source).step_end is not Source.step_end
            ]
        )

    def named(self, name: str) -> Any:
        """The source of this name; None where it is off."""
        return next((source for source in self.all if source.name == name), None)

    def chores(self) -> list[Chore]:
        """Their `poll` calls, for the drain thread."""
        return [Chore(f"tracer.{s.name}.poll", s.poll, s.poll_s, False) for s in self.all]

    def install(self) -> None:
        """Put every hook in place."""
        for source in self.all:
            guard.attempt(f"tracer.{source.name}.install", source.install)

    def add(self, source: Source) -> None:
        """Install one more while the others run; its step_begin, step_end and poll are not called.

        It is removed first, as whatever was installed last.
        """
        self.all.append(source)
        guard.attempt(f"tracer.{source.name}.install", source.install)

    def uninstall(self) -> None:
        """Remove every hook, the last one first."""
        for source in reversed(self.all):
            guard.attempt(f"tracer.{source.name}.uninstall", source.uninstall)

    def finish(self) -> None:
        """Have them record what is left (drain thread)."""
        for source in self.all:
            guard.attempt(f"tracer.{source.name}.finish", source.finish)

    def instrument(self, model: Any, stage: int | None) -> None:
        """Hook a user's module; `stage` is its global (virtual) pipeline stage."""
        for source in self.all:
            guard.attempt(  # a wrong model must not keep the next one from being hooked
                f"tracer.{source.name}.watch",
                lambda s=source: s.instrument(model, stage),  # type: ignore[misc]
                switch_off=False,
            )

    def step_begins(self) -> None:
        """A step has just begun."""
        self._begin_step.attempt()

    def step_ends(self) -> None:
        """A step is about to end."""
        self._end_step.attempt()

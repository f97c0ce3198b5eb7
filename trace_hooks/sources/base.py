"""What every source of events has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_hooks.sources.context import SourceContext

if TYPE_CHECKING:
    from trace_hooks.job.identity import Identity


class Source:
    """Something that sees events: installs its hooks, and takes every one of them away again.

    `install`, `uninstall`, `watch`, `step_begin` and `step_end` run on the training thread, `poll`
    every `poll_s` on the drain thread. Callers guard them all; code a source leaves behind
    inside the user's calls (hooks, wrappers) guards itself with `guard.guarded`.
    """

    name = ""
    poll_s = 1.0
    """How often `poll` is called, about."""

    def __init__(self, context: SourceContext) -> None:
        self.context = context
        self.recorder = context.recorder
        self.rank_state = context.rank_state

    def install(self) -> None:
        """Put the hooks in place."""

    def uninstall(self) -> None:
        """Take away everything `install` and `watch` put in place."""

    def watch(self, model: Any, stage: int | None = None) -> None:
        """Hook a user's module; `stage` is its global (virtual) pipeline stage."""

    def place(self, identity: Identity) -> None:
        """The rank's place in the run is known (drain thread)."""

    def step_begin(self) -> None:
        """A step has just begun."""

    def step_end(self) -> None:
        """A step is about to end."""

    def poll(self) -> None:
        """Look at what cannot be hooked (drain thread)."""

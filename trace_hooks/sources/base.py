"""What every source of events has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_hooks.sources.context import SourceContext

if TYPE_CHECKING:
    from trace_hooks.job.identity import Identity


class Source:
    """Records one kind of event: installs its hooks, and removes every one of them again.

    `install`, `uninstall`, `instrument`, `step_begin` and `step_end` run on the training thread,
    `poll` every `poll_s` on the drain thread, and `finish` there at the end. The caller guards all
    of them; code that a source puts into the user's calls (hooks, wrappers) guards itself with
    `guard.guarded`.
    """

    name = ""
    poll_s = 1.0
    """About how often `poll` is called."""

    def __init__(self, context: SourceContext) -> None:
        self.context = context
        self.recorder = context.recorder
        self.rank_state = context.rank_state

    def install(self) -> None:
        """Put the hooks in place."""

    def uninstall(self) -> None:
        """Remove everything that `install` and `instrument` put in place."""

    def instrument(self, model: Any, stage: int | None = None) -> None:
        """Hook a user's module; `stage` is its global (virtual) pipeline stage."""

    def place(self, identity: Identity) -> None:
        """Take over run, attempt and rank, which are known now (drain thread)."""

    def step_begin(self) -> None:
        """A step has just begun."""

    def step_end(self) -> None:
        """A step is about to end."""

    def poll(self) -> None:
        """Look at state that cannot be hooked (drain thread)."""

    def finish(self) -> None:
        """After `uninstall`: what may take long or touch a disk (drain thread). The end of training
        waits for it, but not without a bound.
        """
